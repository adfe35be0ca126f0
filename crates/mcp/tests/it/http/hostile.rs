//! Requests that no friend makes: the cases 84 to 89 of the list of attacks, by number.

use std::time::Duration;

use prowess_mcp::HttpLimits;
use serde_json::json;

use super::served::{SECRET, Served, hello};
use super::wire::Wire;
use crate::client::{NEWEST, OLDER};
use crate::library::Library;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

#[tokio::test]
async fn case_84_without_the_token_nothing_is_said() {
    let served = Served::start(&Library::usual(), &[]).await;
    let address = served.address;
    for header in [
        String::new(),
        "authorization: Bearer\r\n".to_owned(),
        "authorization: Bearer \r\n".to_owned(),
        format!("authorization: {SECRET}\r\n"),
        format!("authorization: Basic {SECRET}\r\n"),
        format!("authorization: Bearer {SECRET}x\r\n"),
        format!("authorization: Bearer {}\r\n", &SECRET[..SECRET.len() - 1]),
        format!("authorization: Bearer {SECRET}\r\nauthorization: Bearer {SECRET}\r\n"),
    ] {
        for (method, path) in
            [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/"), ("PUT", "/x")]
        {
            let asked = format!(
                "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{header}content-type: application/json\r\ncontent-length: {}\r\n\r\n{LIST}",
                LIST.len()
            );
            let refused = served.raw(asked).await;
            assert_eq!(refused.status, 401, "{header}");
            assert_eq!(refused.headers["www-authenticate"], "Bearer");
            assert!(!refused.body.contains(SECRET) && !refused.body.contains("mcp"), "{refused:?}");
        }
    }
    // Case does not matter for the scheme, and a page of the token's owner learns that it is missing.
    let asked =
        format!("GET /elsewhere HTTP/1.1\r\nhost: {address}\r\nAUTHORIZATION: bEARER {SECRET}\r\n\r\n");
    assert_eq!(served.raw(asked).await.status, 404);
}

#[tokio::test]
async fn case_85_hosts_and_origins_of_others_are_refused_first() {
    let served = Served::start(&Library::usual(), &[]).await;
    let port = served.address.port();
    let hello = hello(OLDER[1], &json!({})).to_string();
    let ask = async |host: &str, origin: Option<&str>, is_known: bool| {
        let origin = origin.map(|origin| format!("origin: {origin}\r\n")).unwrap_or_default();
        let token = if is_known { format!("authorization: Bearer {SECRET}\r\n") } else { String::new() };
        let host = if host.is_empty() { String::new() } else { format!("host: {host}\r\n") };
        let asked = format!(
            "POST /mcp HTTP/1.1\r\n{host}{origin}{token}accept: application/json, text/event-stream\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{hello}",
            hello.len()
        );
        served.raw(asked).await
    };
    for host in [
        "",
        "evil.example.com",
        &format!("evil.example.com:{port}"),
        "localhost",
        "127.0.0.1:1",
        "a b",
        "[::1",
    ] {
        // Whether the token is right makes no difference.
        for is_known in [true, false] {
            let refused = ask(host, None, is_known).await.status;
            assert!(refused == 403 || refused == 400, "{host}: {refused}");
        }
    }
    let ours = format!("127.0.0.1:{port}");
    for origin in [
        "null",
        "https://evil.example.com",
        "http://localhost.evil.example.com",
        "https://app.example.com:8443",
    ] {
        for is_known in [true, false] {
            assert_eq!(ask(&ours, Some(origin), is_known).await.status, 403, "{origin}");
        }
    }
    // What the request line names counts, too.
    let named = served.request("POST", "").replace(" /mcp ", " http://evil.example.com/mcp ");
    assert_eq!(served.raw(named + "content-length: 0\r\n\r\n").await.status, 403);
    // And so does a second one.
    let twice = served.request("GET", "host: evil.example.com\r\n\r\n");
    assert!(matches!(served.raw(twice).await.status, 400 | 403));
    for (host, origin) in [
        (format!("localhost:{port}"), None),
        (format!("[::1]:{port}"), None),
        ("mcp.example.com".to_owned(), None),
        (ours.clone(), Some("http://localhost:6274")),
        (ours.clone(), Some("https://app.example.com")),
    ] {
        let passed = ask(&host, origin, true).await;
        assert_eq!(passed.status, 200, "{host} {origin:?}");
        assert_eq!(passed.headers.get("access-control-allow-origin").map(String::as_str), origin);
    }
    // A browser asks first, without the token.
    let asked = format!("OPTIONS /mcp HTTP/1.1\r\nhost: {ours}\r\norigin: https://app.example.com\r\n\r\n");
    let allowed = served.raw(asked).await;
    assert_eq!(
        (allowed.status, allowed.headers["access-control-allow-origin"].as_str()),
        (204, "https://app.example.com")
    );
}

#[tokio::test]
async fn case_86_what_is_too_long_is_not_read() {
    let served = Served::start(&Library::usual(), &[]).await;
    // The answer is there before a byte of the body is.
    let announced = served.request("POST", "content-length: 104857600\r\n\r\n");
    assert_eq!(served.raw(announced).await.status, 413);
    // What is not announced is counted.
    let mut wire = Wire::connect(served.address).await;
    wire.write(served.request("POST", "transfer-encoding: chunked\r\n\r\n")).await;
    let piece = [format!("{:x}\r\n", 1 << 20).into_bytes(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    let mut written = 0;
    while written < 100 && wire.try_write(&piece).await {
        written += 1;
    }
    assert!(written < 100, "all of it was read");
    // Just as long as it may be passes, and then it is no message.
    let body = vec![b' '; 4 << 20];
    assert_eq!(served.post("", body).await.status, 400);
    // The same for headers: their number, and their size.
    let many: String = (0..100).map(|number| format!("x-{number}: y\r\n")).collect();
    assert_eq!(served.raw(served.request("GET", &many) + "\r\n").await.status, 431);
    let long = format!("x: {}\r\n\r\n", "y".repeat(20_000));
    assert_eq!(served.raw(served.request("GET", &long)).await.status, 431);
}

#[tokio::test]
async fn case_87_slow_clients_are_not_waited_for() {
    let mut limits = HttpLimits::default();
    limits.header_time = Duration::from_millis(200);
    limits.body_time = Duration::from_millis(200);
    limits.stalled_time = Duration::from_millis(200);
    limits.connections = 4;
    let library = Library::usual().file("kit/large.txt", "x".repeat(2 << 20));
    let served = Served::with(&library, &[], limits).await;
    // One that says nothing, one that does not end its headers, one that has said something before.
    let mut silent = Wire::connect(served.address).await;
    let mut headers = Wire::connect(served.address).await;
    headers.write("POST /mcp HTTP/1.1\r\nhost: ").await;
    let mut idle = Wire::connect(served.address).await;
    idle.write(served.request("GET", "\r\n")).await;
    assert_eq!(idle.whole().await.unwrap().status, 400);
    // One that does not end its body.
    let mut body = Wire::connect(served.address).await;
    body.write(served.request("POST", "content-length: 100\r\n\r\n{")).await;
    assert_eq!(body.whole().await.unwrap().status, 408);
    assert!(
        body.is_closed().await
            && headers.is_closed().await
            && silent.is_closed().await
            && idle.is_closed().await
    );
    // Those that read nothing are left, and as many as there may be at once do not keep others out.
    let client = served.client(NEWEST).await;
    let mut deaf = Vec::new();
    for _ in 0..4 {
        let mut wire = Wire::connect(served.address).await;
        let params = json!({"uri": "skill://kit/large.txt"});
        let body = client.body("resources/read", params.clone());
        let head = served.request("POST", &client.headers("resources/read", &params));
        let one = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        // More than the system keeps for a connection.
        wire.try_write(one.repeat(16)).await;
        deaf.push(wire);
    }
    assert!(client.request("tools/list", json!({})).await.is_ok());
    // A stream is not slow because nothing happens.
    let open = served.client(OLDER[1]).await;
    let mut stream = open.stream().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    library.write_skill("newer", "", "New.");
    served.live.put(&library.catalog(&Default::default()));
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/resources/list_changed");
}

#[tokio::test]
async fn case_88_hostile_ids_are_refused_and_are_never_paths() {
    let library = Library::usual();
    let served = Served::start(&library, &[]).await;
    let client = served.client(OLDER[1]).await;
    for id in [
        "../../../etc/passwd",
        "/etc/passwd",
        "..%2f..%2fetc",
        "",
        "x",
        "%00",
        "00000000-0000-0000-0000-000000000000",
        &"a".repeat(8000),
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "ÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿ",
    ] {
        for method in ["POST", "GET", "DELETE"] {
            let asked = served.request(
                method,
                &format!("mcp-session-id: {id}\r\ncontent-length: {}\r\n\r\n{LIST}", LIST.len()),
            );
            assert_eq!(served.raw(asked).await.status, 400, "{method} {id}");
        }
    }
    let session = client.session.clone().unwrap();
    let both = format!("mcp-session-id: {session}\r\nmcp-session-id: {session}\r\n");
    assert_eq!(served.post(&both, LIST).await.status, 400);
    // One that could be ours, and is not.
    for method in ["POST", "GET", "DELETE"] {
        let asked =
            format!("mcp-session-id: {}\r\ncontent-length: {}\r\n\r\n{LIST}", "0".repeat(32), LIST.len());
        assert_eq!(served.raw(served.request(method, &asked)).await.status, 404);
    }
    for event in ["x", "-1", "0/x", "0/0/0", "../0", "99999999999999999999", "1e3", "0/", ""] {
        let asked = format!("mcp-session-id: {session}\r\nlast-event-id: {event}\r\n\r\n");
        assert_eq!(served.raw(served.request("GET", &asked)).await.status, 400, "{event}");
    }
    let headers = client.headers("", &json!({}));
    for id in
        ["null", "1.5", "true", "[1]", "{}", "99999999999999999999", &format!("\"{}\"", "x".repeat(10_000))]
    {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        assert_eq!(served.post(&headers, body).await.status, 400, "{id}");
    }
    // Text is text, whatever it looks like.
    let body = r#"{"jsonrpc":"2.0","id":"../../etc/passwd","method":"tools/list"}"#;
    let answered = served.post(&headers, body).await.message();
    assert_eq!(answered["id"], "../../etc/passwd");
    assert!(answered["result"]["tools"].is_array());
}

#[tokio::test]
async fn case_89_deep_and_broken_json_is_refused() {
    let served = Served::start(&Library::usual(), &[]).await;
    for revision in [OLDER[1], NEWEST] {
        let client = served.client(revision).await;
        let headers = client.headers("tools/list", &json!({}));
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        let good = client.body("tools/list", json!({}));
        let bodies: Vec<Vec<u8>> = vec![
            deep.clone().into_bytes(),
            objects.clone().into_bytes(),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"x":{deep}}}}}"#)
                .into_bytes(),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{objects}}}"#).into_bytes(),
            format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"tools/list"}}"#).into_bytes(),
            "[".repeat(1_000_000).into_bytes(),
            b"".to_vec(),
            b"no json".to_vec(),
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"x\":\"\xff\"}}".to_vec(),
            format!("{good} {good}").into_bytes(),
            format!("{good}x").into_bytes(),
            format!("[{good}]").into_bytes(),
            b"[]".to_vec(),
            b"{}".to_vec(),
            b"\xef\xbb\xbf{}".to_vec(),
        ];
        for body in bodies {
            let refused = served.post(&headers, &body).await;
            assert_eq!(refused.status, 400, "{}", String::from_utf8_lossy(&body[..body.len().min(80)]));
            assert!(refused.message()["error"]["code"].is_i64());
        }
        assert!(client.request("tools/list", json!({})).await.is_ok());
    }
    let text = served.request("POST", "").replace("application/json\r\n", "text/plain\r\n");
    assert_eq!(served.raw(format!("{text}content-length: {}\r\n\r\n{LIST}", LIST.len())).await.status, 415);
}
