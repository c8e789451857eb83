//! Experiments, and what is left of attachments, over the socket.

use super::*;

#[tokio::test]
async fn a_story_is_told_of_what_was_detached() {
    let served = Served::new("story", "");
    let id = served.attach(USER, 100).await;
    let path = format!("/v1/history/{id}");
    let ask = async |who, path: &str| served.json(who, "GET", path, &Value::Null).await;
    assert_eq!(ask(USER, &path).await.0, 404);
    let detach = format!("/v1/attachments/{id}");
    served.json(USER, "DELETE", &detach, &Value::Null).await;
    let (_, rows) = ask(USER, "/v1/history").await;
    conforms(&rows, "[StoryRow]").unwrap();
    let (status, story) = ask(USER, &path).await;
    assert_eq!((status, &story["row"]), (200, &rows[0]));
    conforms(&story["detail"], "AttachmentDetail").unwrap();
    conforms(&story["events"], "[EventRow]").unwrap();
    conforms(&story["undone"], "UndoReport").unwrap();
    let other = Credentials { uid: 8, gid: 8 };
    assert_eq!(ask(other, "/v1/history").await.1, json!([]));
    assert_eq!(ask(other, &path).await.0, 403);
    assert_eq!(ask(ROOT, &path).await.0, 200);
    assert_eq!(ask(ROOT, "/v1/history/x").await.0, 400);
    served.end().await;
}

#[tokio::test]
async fn an_experiment_is_begun_followed_and_stopped() {
    let served = Served::new("experiments", "");
    let body = json!({
        "target": { "pids": [100] },
        "arms": [
            { "name": "none", "policy": "none" },
            { "name": "packed", "policy": "packed" },
        ],
        "metrics": ["cmd:x"],
        "blocks": 6,
        "seed": 1,
        "margin": 0.03,
        "looks": false,
        "slice_ms": 60_000,
        "time_constant_ms": 0,
        "max_harm": 0.5,
        "attended": true,
    });
    let ask = async |who, method, path: &str, body: &Value| {
        let (status, answer) = served.json(who, method, path, body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        let route = OPERATIONS.iter().find(|route| {
            route.method.to_uppercase() == method && route.path == path.replace("/1", "/{id}")
        });
        conforms(
            &answer,
            route.map_or("ExperimentRow", |it| it.answer.unwrap()),
        )
        .unwrap();
        answer
    };
    let row = ask(USER, "POST", "/v1/experiments", &body).await;
    assert_eq!((&row["id"], &row["state"]), (&json!(1), &json!("running")));
    let rows = ask(USER, "GET", "/v1/experiments", &Value::Null).await;
    assert_eq!(rows[0], row);
    let turn = &format!("/v1/experiments/1/turn?after={}", 0);
    let turned = ask(USER, "GET", turn, &Value::Null).await;
    assert_eq!(turned["turn"], json!(1));
    // Whoever waits is told at once when someone stops it.
    let waits = served.json(USER, "GET", "/v1/experiments/1/turn?after=1", &Value::Null);
    let stops = async {
        let stopped = ask(USER, "DELETE", "/v1/experiments/1", &Value::Null).await;
        assert_eq!(stopped["ending"], json!("interrupted"));
    };
    let ((status, over), ()) = tokio::join!(waits, stops);
    assert_eq!((status, &over["state"]), (200, &json!("over")), "{over}");
    ask(ROOT, "GET", "/v1/experiments/1", &Value::Null).await;
    let reading = json!({ "turn": 1, "values": [1.0] });
    let (status, _) = served
        .json(USER, "POST", "/v1/experiments/1/readings", &reading)
        .await;
    assert_eq!(status, 409);
    let (status, _) = served
        .json(USER, "DELETE", "/v1/experiments/1", &Value::Null)
        .await;
    assert_eq!(status, 409);
    served.end().await;
}

#[tokio::test]
async fn what_is_no_experiment_is_refused_in_the_same_form() {
    let served = Served::new("experiments-refused", "");
    served
        .refuses(&[
            ("POST", "/v1/experiments", "{}", 400, "target"),
            ("GET", "/v1/experiments/99", "", 404, "`99`"),
            ("GET", "/v1/experiments/99/turn?after=x", "", 400, "`x`"),
            ("GET", "/v1/experiments/99/turn", "", 404, "`99`"),
            ("DELETE", "/v1/experiments/last", "", 400, "`last`"),
            (
                "POST",
                "/v1/experiments/99/readings",
                "{\"turn\":1,\"values\":[]}",
                404,
                "`99`",
            ),
        ])
        .await;
    served.end().await;
}
