//! Describes the errors that any operation can answer with, in one place.

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Ref;
use utoipa::openapi::{ContentBuilder, OpenApi, RefOr, ResponseBuilder};

/// Adds the errors that follow from what an operation takes, unless it describes them itself.
pub(crate) fn describe_errors(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let schema = if path.starts_with("/v1/") { "OpenAiErrorBody" } else { "ApiErrorBody" };
        let has_parts = path.contains('{');
        let operations = [
            (false, &mut item.get),
            (true, &mut item.put),
            (true, &mut item.post),
            (true, &mut item.delete),
            (true, &mut item.patch),
        ];
        for (is_change, operation) in operations {
            let Some(operation) = operation else { continue };
            let has_parameters = operation.parameters.as_ref().is_some_and(|all| !all.is_empty());
            let has_body = operation.request_body.is_some();
            let mut error = |status: u16, text: &str| add(operation, status, text, schema);
            if has_body || has_parameters {
                error(400, "The request is wrong");
            }
            error(401, "The token is missing, or not valid");
            error(403, "The token has no right to do that");
            if has_parts {
                error(404, "There is no such thing, or it is not yours");
            }
            if is_change && (has_parts || has_body) {
                error(409, "It does not fit the present state");
            }
            if has_body {
                error(413, "The body is too large");
                error(415, "The body has another type");
            }
            error(429, "You make too many requests");
            error(500, "The server or its model failed");
        }
    }
}

fn add(operation: &mut Operation, status: u16, text: &str, schema: &str) {
    let schema = Ref::from_schema_name(schema);
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(text).content("application/json", content).build();
    operation.responses.responses.entry(status.to_string()).or_insert(RefOr::T(response));
}
