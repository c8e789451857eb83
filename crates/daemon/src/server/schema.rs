//! The description of one row, and how it reads as JSON Schema.

use serde_json::{Map, Value, json};

/// A row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    pub(super) name: &'static str,
    /// Name, type, help. A type is a word, a schema's name, `[of many]` or `{of named}`; a `?` at the
    /// end of the type says that the field may be absent.
    pub(super) fields: &'static [(&'static str, &'static str, &'static str)],
}

/// A row as JSON Schema.
pub(super) fn render(schema: &Schema) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for &(name, kind, help) in schema.fields {
        let present = kind.strip_suffix('?');
        if present.is_none() {
            required.push(name);
        }
        let mut described = type_of(present.unwrap_or(kind));
        described["description"] = help.into();
        properties.insert(name.to_owned(), described);
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// A type in the notation of [`Schema::fields`] as JSON Schema.
pub(super) fn type_of(text: &str) -> Value {
    let inside = |open, close| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(item) = inside('[', ']') {
        return json!({ "type": "array", "items": type_of(item) });
    }
    if let Some(item) = inside('{', '}') {
        return json!({ "type": "object", "additionalProperties": type_of(item) });
    }
    match text {
        "any" => json!({}),
        "bool" => json!({ "type": "boolean" }),
        "bytes" => json!({ "type": "string", "format": "binary" }),
        "integer" => json!({ "type": "integer", "minimum": 0 }),
        "integer|null" => json!({ "type": ["integer", "null"] }),
        "number|null" => json!({ "type": ["number", "null"] }),
        "number" | "string" => json!({ "type": text }),
        row => json!({ "$ref": format!("#/components/schemas/{row}") }),
    }
}
