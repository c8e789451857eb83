//! What the server answers: one table, from which the routes, the OpenAPI description and their
//! tests are made.

use control::ErrorKind;
use serde_json::{Map, Value, json};

use super::schema;
use super::schemas::SCHEMAS;

/// A thing to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// How the daemon is.
    Status,
    /// All attachments.
    Attachments,
    /// Attach.
    Attach,
    /// One attachment.
    Attachment,
    /// Detach.
    Detach,
    /// Who talks to whom.
    Matrix,
    /// What was done and not done.
    Events,
    /// Recordings being made.
    Recordings,
    /// Record.
    Record,
    /// End a recording.
    EndRecording,
    /// Experiments.
    Experiments,
    /// Begin an experiment.
    Experiment,
    /// What there is of an experiment.
    ShowExperiment,
    /// Wait for what happens to an experiment.
    Turn,
    /// Give numbers that an experiment waits for.
    GiveReading,
    /// End an experiment.
    StopExperiment,
    /// Attachments that have ended.
    History,
    /// The story of one.
    Story,
    /// The policies.
    Policies,
    /// Put back.
    Undo,
    /// What is not undone.
    Journal,
    /// Read the settings again.
    Reload,
    /// What this machine can give.
    Doctor,
    /// Settings in force.
    Config,
    /// The description of all this.
    OpenApi,
    /// Counters.
    Metrics,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// What.
    pub operation: Operation,
    /// How it is asked, in lower case.
    pub method: &'static str,
    /// Where; `{id}` is an attachment's number.
    pub path: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The one query parameter it knows: name, type, help.
    pub query: Option<(&'static str, &'static str, &'static str)>,
    /// Schema of the request's body.
    pub body: Option<&'static str>,
    /// Type of the answer in the notation of the schemas; none for plain text, `bytes` for neither
    /// text nor JSON.
    pub answer: Option<&'static str>,
}

const fn route(
    operation: Operation,
    method: &'static str,
    path: &'static str,
    answer: &'static str,
    summary: &'static str,
) -> Route {
    Route {
        operation,
        method,
        path,
        summary,
        query: None,
        body: None,
        answer: Some(answer),
    }
}

/// Everything that is answered.
pub const OPERATIONS: &[Route] = &[
    route(
        Operation::Status,
        "get",
        "/v1/status",
        "Status",
        "How the daemon is.",
    ),
    route(
        Operation::Attachments,
        "get",
        "/v1/attachments",
        "[Attachment]",
        "Attached programs that the caller may see.",
    ),
    Route {
        body: Some("AttachRequest"),
        ..route(
            Operation::Attach,
            "post",
            "/v1/attachments",
            "Attachment",
            "Puts a program under a policy.",
        )
    },
    route(
        Operation::Attachment,
        "get",
        "/v1/attachments/{id}",
        "AttachmentDetail",
        "One attached program with its threads.",
    ),
    route(
        Operation::Detach,
        "delete",
        "/v1/attachments/{id}",
        "UndoReport",
        "Takes a program from its policy and puts back what was changed.",
    ),
    Route {
        query: Some((
            "window",
            "string",
            "`live`, the last window, or `decayed`, all of them.",
        )),
        ..route(
            Operation::Matrix,
            "get",
            "/v1/attachments/{id}/matrix",
            "Matrix",
            "Which thread shares memory with which.",
        )
    },
    Route {
        query: Some(("last", "integer", "How many at most; 64 when absent.")),
        ..route(
            Operation::Events,
            "get",
            "/v1/attachments/{id}/events",
            "[EventRow]",
            "What was done and not done, and why, oldest first; also of a program that has ended.",
        )
    },
    route(
        Operation::Recordings,
        "get",
        "/v1/recordings",
        "[RecordingRow]",
        "Recordings being made that the caller asked for; all of them for admins.",
    ),
    Route {
        body: Some("RecordRequest"),
        ..route(
            Operation::Record,
            "post",
            "/v1/recordings",
            "bytes",
            "Records a program. The answer is the recording (docs/recording-format.md) as it is made; \
             its header `numad-recording` is the number that ends it.",
        )
    },
    route(
        Operation::EndRecording,
        "delete",
        "/v1/recordings/{id}",
        "RecordingRow",
        "Ends a recording, so that its answer is complete.",
    ),
    route(
        Operation::Experiments,
        "get",
        "/v1/experiments",
        "[ExperimentRow]",
        "Experiments of the caller, oldest first; all of them for admins.",
    ),
    Route {
        body: Some("ExperimentRequest"),
        ..route(
            Operation::Experiment,
            "post",
            "/v1/experiments",
            "ExperimentRow",
            "Puts a program under several policies in turn; waits for experiments on the same nodes.",
        )
    },
    route(
        Operation::ShowExperiment,
        "get",
        "/v1/experiments/{id}",
        "{any}",
        "What there is of an experiment, as docs/experiments.md describes it.",
    ),
    Route {
        query: Some((
            "after",
            "integer",
            "Answer when its `turn` is above this, or after 10 s.",
        )),
        ..route(
            Operation::Turn,
            "get",
            "/v1/experiments/{id}/turn",
            "ExperimentRow",
            "Waits for what happens to an experiment.",
        )
    },
    Route {
        body: Some("ReadingRequest"),
        ..route(
            Operation::GiveReading,
            "post",
            "/v1/experiments/{id}/readings",
            "ExperimentRow",
            "Gives the numbers that an experiment asks for, which the daemon does not read itself.",
        )
    },
    route(
        Operation::StopExperiment,
        "delete",
        "/v1/experiments/{id}",
        "{any}",
        "Ends an experiment, puts everything back, and gives what there is of it.",
    ),
    route(
        Operation::History,
        "get",
        "/v1/history",
        "[StoryRow]",
        "Attachments of the caller that have ended, oldest first; all of them for admins.",
    ),
    route(
        Operation::Story,
        "get",
        "/v1/history/{id}",
        "{any}",
        "All that is kept of an attachment that has ended: row, machine, detail, matrix, events, undone.",
    ),
    route(
        Operation::Policies,
        "get",
        "/v1/policies",
        "[PolicyRow]",
        "The policies and their settings.",
    ),
    Route {
        body: Some("UndoRequest"),
        ..route(
            Operation::Undo,
            "post",
            "/v1/undo",
            "UndoReport",
            "Puts back what was changed and detaches.",
        )
    },
    route(
        Operation::Journal,
        "get",
        "/v1/journal",
        "JournalReport",
        "What the undo journal holds: everything of all users for admins, of the caller's processes for others.",
    ),
    route(
        Operation::Reload,
        "post",
        "/v1/reload",
        "ReloadReport",
        "Reads the settings again; bad ones are refused and the old ones stay.",
    ),
    route(
        Operation::Doctor,
        "get",
        "/v1/doctor",
        "[Finding]",
        "What this machine can and cannot give, and what to do about it.",
    ),
    route(
        Operation::Config,
        "get",
        "/v1/config",
        "ConfigText",
        "The settings in force.",
    ),
    route(
        Operation::OpenApi,
        "get",
        "/v1/openapi.json",
        "{any}",
        "This description.",
    ),
    Route {
        answer: None,
        ..route(
            Operation::Metrics,
            "get",
            "/metrics",
            "",
            "Counters, as Prometheus reads them.",
        )
    },
];

/// The description, as OpenAPI 3.1.
#[must_use]
pub fn openapi() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in OPERATIONS {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route);
    }
    let schemas: Map<String, Value> = SCHEMAS
        .iter()
        .map(|schema| (schema.name.to_owned(), schema::render(schema)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "numad",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Spoken over a Unix socket. Who may do what is decided by the peer's \
                            credentials: root and the admin group everything, others what \
                            concerns their own processes.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "http://localhost", "description": control::SOCKET_DEFAULT }],
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn operation(route: &Route) -> Value {
    let mut parameters = Vec::new();
    if route.path.contains("{id}") {
        parameters.push(json!({
            "name": "id",
            "in": "path",
            "required": true,
            "schema": { "type": "integer", "minimum": 0 },
        }));
    }
    if let Some((name, kind, help)) = route.query {
        parameters.push(json!({
            "name": name,
            "in": "query",
            "description": help,
            "schema": { "type": kind },
        }));
    }
    let content = match route.answer {
        Some("bytes") => {
            json!({ "application/octet-stream": { "schema": schema::type_of("bytes") } })
        }
        Some(answer) => json!({ "application/json": { "schema": schema::type_of(answer) } }),
        None => json!({ "text/plain": { "schema": { "type": "string" } } }),
    };
    let mut responses = Map::new();
    responses.insert(
        "200".to_owned(),
        json!({ "description": "Done.", "content": content }),
    );
    for kind in ErrorKind::ALL {
        responses.insert(
            kind.http_status().to_string(),
            json!({
                "description": kind.meaning(),
                "content": { "application/json": { "schema": schema::type_of("ErrorBody") } },
            }),
        );
    }
    let mut described = json!({
        "operationId": format!("{:?}", route.operation),
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(body) = route.body {
        described["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": schema::type_of(body) } },
        });
    }
    described
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every `$ref` in a description.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let (true, Some(target)) = (name == "$ref", value.as_str()) {
                        found.insert(target.to_owned());
                    }
                    references(value, found);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let description = openapi();
        let mut found = BTreeSet::new();
        references(&description, &mut found);
        assert!(found.len() > 10);
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(
                description["components"]["schemas"][name].is_object(),
                "{reference}"
            );
        }
    }

    #[test]
    fn no_operation_is_described_twice() {
        let operations: BTreeSet<String> = OPERATIONS
            .iter()
            .map(|route| format!("{:?}", route.operation))
            .collect();
        let places: BTreeSet<(&str, &str)> = OPERATIONS
            .iter()
            .map(|route| (route.method, route.path))
            .collect();
        assert_eq!(operations.len(), OPERATIONS.len());
        assert_eq!(places.len(), OPERATIONS.len());
    }
}
