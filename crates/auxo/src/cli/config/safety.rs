//! Who could reach a server, and whether it is ready for them.

use std::net::SocketAddr;

/// What stands between a server and those who can reach it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Safety {
    /// Nothing need, it was said.
    pub insecure: bool,
    /// There are certificates.
    pub tls: bool,
    /// Clients must have certificates, too.
    pub client_certificates: bool,
    /// There is a token.
    pub tokens: bool,
}

/// What a protocol can ask a client for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// A token.
    ForTokens,
    /// Nothing: only the certificate of TLS can say who a client is.
    ForNothing,
}

impl Safety {
    /// Reads an address, and refuses one that others can reach without being asked who they are.
    pub fn address(&self, text: &str, asks: Asks) -> Result<SocketAddr, String> {
        let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
        let address: SocketAddr = numeric
            .parse()
            .map_err(|_| "write an address and a port, such as 127.0.0.1:8000 or [::1]:8000")?;
        if address.ip().is_loopback() || self.insecure {
            return Ok(address);
        }
        let missing = self.missing(asks);
        match missing.is_empty() {
            true => Ok(address),
            false => Err(format!(
                "others can reach {address}, so it needs {}; or listen on 127.0.0.1, or say --insecure if the network \
                 itself is safe",
                missing.join(" and ")
            )),
        }
    }

    fn missing(&self, asks: Asks) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if !self.tls {
            missing.push("TLS (--tls-cert and --tls-key)");
        }
        match asks {
            Asks::ForTokens if !self.tokens => {
                missing.push("a token (`auxo token new --allow admin:*` makes the first)");
            }
            Asks::ForNothing if !self.client_certificates => {
                missing.push(
                    "client certificates (--tls-client-ca), since this protocol knows no tokens",
                );
            }
            _ => {}
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Safety = Safety {
        insecure: false,
        tls: false,
        client_certificates: false,
        tokens: false,
    };

    #[test]
    fn an_address_that_others_can_reach_needs_tls_and_tokens_or_to_be_meant() {
        for local in ["127.0.0.1:8000", "127.9.9.9:1", "[::1]:8000", "localhost:9"] {
            assert!(NOTHING.address(local, Asks::ForTokens).is_ok(), "{local}");
            assert!(NOTHING.address(local, Asks::ForNothing).is_ok(), "{local}");
        }
        let (tls, tokens) = (
            Safety {
                tls: true,
                ..NOTHING
            },
            Safety {
                tokens: true,
                ..NOTHING
            },
        );
        let both = Safety {
            tokens: true,
            ..tls
        };
        let clients = Safety {
            client_certificates: true,
            ..tls
        };
        let insecure = Safety {
            insecure: true,
            ..NOTHING
        };
        for (safety, asks, says) in [
            (
                NOTHING,
                Asks::ForTokens,
                "TLS (--tls-cert and --tls-key) and a token",
            ),
            (tls, Asks::ForTokens, "needs a token"),
            (
                tokens,
                Asks::ForTokens,
                "needs TLS (--tls-cert and --tls-key);",
            ),
            (clients, Asks::ForTokens, "needs a token"),
            (both, Asks::ForNothing, "client certificates"),
            (tokens, Asks::ForNothing, "TLS"),
        ] {
            for open in [
                "0.0.0.0:8000",
                "[::]:8000",
                "192.0.2.7:1",
                "[::ffff:0.0.0.0]:0",
            ] {
                let refused = safety.address(open, asks).unwrap_err();
                assert!(refused.contains(says), "{open} {safety:?}: {refused}");
                assert!(refused.contains("--insecure"), "{refused}");
            }
        }
        for (safety, asks) in [
            (both, Asks::ForTokens),
            (clients, Asks::ForNothing),
            (insecure, Asks::ForTokens),
            (insecure, Asks::ForNothing),
        ] {
            assert!(safety.address("0.0.0.0:8000", asks).is_ok(), "{safety:?}");
        }
    }

    #[test]
    fn an_address_is_a_number_and_a_port() {
        let insecure = Safety {
            insecure: true,
            ..NOTHING
        };
        let local = insecure.address("localhost:9", Asks::ForTokens);
        assert_eq!(local, Ok("127.0.0.1:9".parse().unwrap()));
        for wrong in [
            "",
            "8000",
            ":8000",
            "127.0.0.1",
            "example.com:80",
            "1.2.3.4:99999",
        ] {
            assert!(insecure.address(wrong, Asks::ForTokens).is_err(), "{wrong}");
        }
    }
}
