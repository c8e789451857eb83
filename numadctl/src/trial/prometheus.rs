//! Metrics that a Prometheus server is asked for.

use std::time::Duration;

use control::{ErrorKind, Failure};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::command::interrupted;
use crate::waiting::Waiting;

/// Longest that an answer may take, and most bytes of it: it is one number.
const TIME_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Asks a server, `http://HOST:PORT` with a path if it has one, for the one number that a query gives.
///
/// # Errors
/// When it does not answer within 10 s, or with anything but one finite number. `Busy` when someone interrupts the wait.
pub(crate) fn ask(url: &str, query: &str, waiting: &mut Waiting<'_>) -> Result<f64, Failure> {
    let wrong = |what: String| {
        Failure::new(
            ErrorKind::Program,
            format!("metric `prom:{url} {query}` {what}"),
        )
        .remedy("the query must give one number; try it in the server's own page")
    };
    // A timer can be made within the event loop alone.
    let answer = waiting.unless(async { tokio::time::timeout(TIME_MAX, get(url, query)).await });
    let answer = answer.ok_or_else(interrupted)?;
    let answer = answer.unwrap_or_else(|_elapsed| Err("was not answered within 10 s".to_owned()));
    answer.and_then(|bytes| number(&bytes)).map_err(wrong)
}

async fn get(url: &str, query: &str) -> Result<Bytes, String> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = match authority.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
        _ => format!("{authority}:9090"),
    };
    let unreached = |error: std::io::Error| format!("cannot reach `{address}`: {error}");
    let stream = TcpStream::connect(&address).await.map_err(unreached)?;
    let broken = |error: hyper::Error| format!("has no answer of `{address}`: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let driver = tokio::spawn(connection);
    let slash = if path.is_empty() { "" } else { "/" };
    let path = path.trim_end_matches('/');
    let request = Request::get(format!(
        "{slash}{path}/api/v1/query?query={}",
        encoded(query)
    ))
    .header(hyper::header::HOST, authority)
    .body(Empty::<Bytes>::new())
    .map_err(|error| format!("cannot be asked for: {error}"))?;
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
        .map_err(|error| format!("has no whole answer of `{address}`: {error}"))?;
    driver.abort();
    match status.is_success() {
        true => Ok(body.to_bytes()),
        false => Err(format!("is answered by `{address}` with status {status}")),
    }
}

/// Every byte that is no letter, digit or one of `-._~`, as in `%20`.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The one number of an answer: a scalar, or a vector of one. Takes any bytes.
fn number(answer: &[u8]) -> Result<f64, String> {
    let answer: Value =
        serde_json::from_slice(answer).map_err(|error| format!("is no JSON: {error}"))?;
    let data = &answer["data"];
    let pair = match data["resultType"].as_str() {
        Some("scalar") => &data["result"],
        Some("vector") => match data["result"].as_array().map(Vec::as_slice) {
            Some([one]) => &one["value"],
            other => {
                let count = other.map_or(0, <[Value]>::len);
                return Err(format!("gives {count} series instead of one"));
            }
        },
        _ => return Err("gives neither a scalar nor a vector".to_owned()),
    };
    let number = pair[1].as_str().and_then(|text| text.parse::<f64>().ok());
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| "gives no finite number".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[track_caller]
    fn gives(answer: &str, expected: Result<f64, &str>) {
        match (number(answer.as_bytes()), expected) {
            (Ok(number), Ok(expected)) => assert!((number - expected).abs() < 1e-12),
            (Err(told), Err(part)) => assert!(told.contains(part), "{told}"),
            (found, _) => panic!("{answer}: {found:?}"),
        }
    }

    #[test]
    fn one_number_is_taken_and_nothing_else() {
        let vector = |items: &str| {
            format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{items}]}}}}"#)
        };
        let item = r#"{"metric":{},"value":[1700000000.1,"12.5"]}"#;
        gives(&vector(item), Ok(12.5));
        gives(
            r#"{"data":{"resultType":"scalar","result":[1,"3"]}}"#,
            Ok(3.0),
        );
        gives(&vector(""), Err("0 series"));
        gives(&vector(&format!("{item},{item}")), Err("2 series"));
        gives(&vector(&item.replace("12.5", "NaN")), Err("no finite"));
        gives(&vector(&item.replace("\"12.5\"", "12")), Err("no finite"));
        gives(r#"{"data":{"resultType":"matrix"}}"#, Err("neither"));
        gives("{}", Err("neither"));
        gives("<html>", Err("no JSON"));
    }

    /// A server that gives everybody this answer, one after the other, and its address.
    fn server(answer: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = [0; 4096];
                let _length = stream.read(&mut asked).unwrap();
                let length = answer.len();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        format!("http://{address}")
    }

    #[test]
    fn a_server_is_asked_while_others_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut waiting = Waiting::new(&runtime).unwrap();
        let url = server(r#"{"data":{"resultType":"scalar","result":[1,"42"]}}"#);
        let number = ask(&url, "up", &mut waiting).unwrap();
        assert!((number - 42.0).abs() < 1e-12);
        let failure = ask(&server("42"), "up", &mut waiting).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Program);
        assert!(failure.message.contains("neither"), "{failure}");
        // Port 1 is nobody's.
        let failure = ask("http://127.0.0.1:1", "up", &mut waiting).unwrap_err();
        assert!(failure.message.contains("cannot reach"), "{failure}");
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(
            encoded("rate(x{a=\"b\"}[1m])"),
            "rate%28x%7Ba%3D%22b%22%7D%5B1m%5D%29"
        );
    }
}
