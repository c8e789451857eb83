//! Clients that ask for much and read nothing.

use super::*;

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    // Several times what a socket takes in without a reader.
    const MOST: usize = 4 << 20;
    let world = World::new();
    world.add_process(5_000, 7, 8_000);
    let limits = Limits {
        unread_user_bytes_max: MOST,
        ..HASTY
    };
    let text = "[limits]\nuser_share_percent = 100\nuser_requests_per_s = 1000\n\
                user_threads_max = 8000\n";
    let served = Served::of(&world, "unread", text, limits);
    let id = served.attach(USER, 5_000).await;
    let path = format!("/v1/attachments/{id}");
    let (status, detail) = served.ask(USER, "GET", &path, "").await;
    assert_eq!(status, 200, "{detail}");
    let most = MOST / detail.len();
    assert!((2..8).contains(&most), "{} bytes", detail.len());
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let (mut unread, mut refused) = (Vec::new(), 0);
    for _ in 0..16 {
        let mut stream = served.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        match &head[9..] {
            b"200" => unread.push(stream),
            _ => {
                let rest = String::from_utf8(read_all(stream).await).unwrap();
                assert!(rest.contains("answers of yours"), "{rest}");
                refused += 1;
            }
        }
    }
    // Figures in it get longer with time.
    assert!(
        (most - 1..=most).contains(&unread.len()),
        "{} of {most}",
        unread.len()
    );
    assert_eq!(unread.len() + refused, 16);
    // Whoever hangs up or reads makes room.
    drop(unread.pop());
    drop(read_all(unread.remove(0)).await);
    let (status, again) = served.ask(USER, "GET", &path, "").await;
    assert_eq!(status, 200, "{again}");
    served.end().await;
}
