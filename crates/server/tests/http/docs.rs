//! The document and the page.

use auxo_core::Code;

use super::bench::Bench;

#[test]
fn the_document_knows_every_code_there_is_and_no_other() {
    let document = auxo_server::document();
    let codes = Code::ALL.map(Code::as_str);
    assert_eq!(
        document["components"]["schemas"]["Code"]["enum"],
        serde_json::json!(codes)
    );
}

#[tokio::test]
async fn the_document_is_openapi_3_1_and_every_reference_in_it_leads_somewhere() {
    let bench = Bench::start().await;
    let document = bench.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let text = document.to_string();
    for part in text.split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        let target = &document["components"]["schemas"][name];
        assert!(target.is_object(), "{name} is not described");
    }
}

#[tokio::test]
async fn every_documented_route_is_there() {
    let bench = Bench::start().await;
    let document = auxo_server::document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let path = path
                .replace("{queue}", "q")
                .replace("{id}", "7")
                .replace(['{', '}'], "");
            if path == "/v1/events" {
                continue;
            }
            let reply = bench.call(&method.to_uppercase(), &path, "").await;
            assert_ne!(reply.status, 405, "{method} {path}");
            if reply.status == 404 {
                let message = reply.problem(404, "not_found");
                assert!(!message.contains("/docs"), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn the_page_names_every_route_and_fetches_nothing() {
    let bench = Bench::start().await;
    let page = bench.get("/docs").await;
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    for path in auxo_server::document()["paths"].as_object().unwrap().keys() {
        assert!(page.text.contains(path.as_str()), "{path}");
    }
    for foreign in ["http://", "https://", "<script", "<link", "@import"] {
        assert!(!page.text.contains(foreign), "{foreign}");
    }
}

#[tokio::test]
async fn no_answer_is_to_be_taken_for_something_else_than_it_says() {
    let bench = Bench::start().await;
    for path in ["/v1/queues", "/healthz", "/docs", "/nothing", "/metrics"] {
        let answer = bench.get(path).await;
        let header = answer.header("x-content-type-options");
        assert_eq!(header, Some("nosniff"), "{path}");
    }
}
