//! The other side: bytes that go there and come back, on the same kind of runtime, and nothing else.

use std::io::Write;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{Plan, Result};

/// How many bytes come back for a message of how many: the first eight bytes of a connection say both.
pub fn greeting(request: usize, answer: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(request as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&(answer as u32).to_le_bytes());
    bytes
}

/// Serves until the process is killed.
pub fn serve(_: &Plan) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // A client that goes ends its own connection only.
            tokio::spawn(async move {
                let _ = talk(stream).await;
            });
        }
    })
}

async fn talk(mut stream: TcpStream) -> std::io::Result<()> {
    let request = stream.read_u32_le().await? as usize;
    let answer = vec![b'.'; stream.read_u32_le().await? as usize];
    let mut buffer = vec![0; 64 << 10];
    loop {
        let mut left = request;
        while left > 0 {
            match stream.read(&mut buffer).await? {
                0 => return Ok(()),
                read => left = left.saturating_sub(read),
            }
        }
        stream.write_all(&answer).await?;
    }
}
