//! Parameters of tools: their JSON Schema, and errors about arguments that do not match it.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use prowess_permission::nearest::nearest;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The most names of arguments in a message.
const MAX_LISTED_ARGUMENTS: usize = 20;

/// What is wrong with the arguments of a call. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongArguments {
    /// They are not an object.
    #[error("they must be a JSON object")]
    NoObject,
    /// There is no such argument.
    #[error("there is no argument `{name}`{}", hint(nearest.as_deref(), known))]
    Unknown {
        /// The argument, as a path: `inputs[0].frm`.
        name: String,
        /// The argument that the model probably meant.
        nearest: Option<String>,
        /// The existing arguments.
        known: Vec<String>,
    },
    /// A required argument is missing.
    #[error("the argument `{name}` is missing")]
    Missing {
        /// The argument, as a path.
        name: String,
    },
    /// An argument has a wrong value.
    #[error("{0}")]
    Value(String),
}

fn hint(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!(": did you mean `{nearest}`?"),
        None if known.is_empty() => "; this tool takes none".to_owned(),
        None => {
            let mut known: Vec<&String> = known.iter().collect();
            known.sort();
            let listed: Vec<String> =
                known.iter().take(MAX_LISTED_ARGUMENTS).map(|name| format!("`{name}`")).collect();
            format!("; there are {}", listed.join(", "))
        }
    }
}

/// The JSON Schema of a tool's arguments, without references and without details that do not help a model. It is made once
/// and cached.
///
/// Optional arguments do not allow null, because some providers do not support such types. Defaults come from the code.
///
/// ```
/// use prowess_skills::parameters;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Wave {
///     #[serde(default = "once")]
///     times: u32,
/// }
///
/// fn once() -> u32 {
///     1
/// }
///
/// assert_eq!(parameters::schema::<Wave>()["properties"]["times"]["default"], 1);
/// ```
pub fn schema<A: JsonSchema + 'static>() -> Arc<Value> {
    static CACHE: RwLock<BTreeMap<TypeId, Arc<Value>>> = RwLock::new(BTreeMap::new());
    let of = TypeId::of::<A>();
    if let Some(cached) = CACHE.read().unwrap_or_else(PoisonError::into_inner).get(&of) {
        return Arc::clone(cached);
    }
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<A>());
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
    }
    clean(&mut schema);
    let schema = Arc::new(schema);
    CACHE.write().unwrap_or_else(PoisonError::into_inner).insert(of, Arc::clone(&schema));
    schema
}

/// Parses the arguments of a call. Models write `null` for arguments that they leave out, so null counts as missing.
///
/// If the schema has `additionalProperties: false`, an unknown argument is an error that suggests a known one.
///
/// ```
/// use prowess_skills::parameters;
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Wave {
///     #[serde(default)]
///     timeout: Option<u32>,
/// }
///
/// assert_eq!(parameters::parse::<Wave>(json!({"timeout": null})).unwrap().timeout, None);
/// let wrong = parameters::parse::<Wave>(json!({"timeout_secs": 7})).err().unwrap();
/// assert_eq!(wrong.to_string(), "there is no argument `timeout_secs`: did you mean `timeout`?");
/// ```
///
/// # Errors
///
/// The arguments do not match the schema.
pub fn parse<A: DeserializeOwned + JsonSchema + 'static>(arguments: Value) -> Result<A, WrongArguments> {
    let mut arguments = object(arguments)?;
    check(&schema::<A>(), &mut arguments, "")?;
    typed(arguments)
}

/// Arguments as an object.
pub(crate) fn object(arguments: Value) -> Result<Map<String, Value>, WrongArguments> {
    match arguments {
        Value::Null => Ok(Map::new()),
        Value::Object(arguments) => Ok(arguments),
        _ => Err(WrongArguments::NoObject),
    }
}

/// Checked arguments as a type.
pub(crate) fn typed<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A, WrongArguments> {
    serde_json::from_value(arguments.into()).map_err(|error| WrongArguments::Value(error.to_string()))
}

/// Checks the names of arguments against a schema, and that required ones are there. Removes arguments that are null.
pub(crate) fn check(
    schema: &Value,
    arguments: &mut Map<String, Value>,
    path: &str,
) -> Result<(), WrongArguments> {
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    let required = || schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if schema["additionalProperties"] == false
        && let Some(name) = arguments.keys().find(|name| !properties.contains_key(*name))
    {
        // Do not suggest an argument that the call already has.
        let free = properties.keys().map(String::as_str).filter(|known| !arguments.contains_key(*known));
        let nearest = nearest(name, free).map(str::to_owned);
        return Err(WrongArguments::Unknown {
            name: below(name),
            nearest,
            known: properties.keys().cloned().collect(),
        });
    }
    arguments.retain(|name, value| !value.is_null() || !properties.contains_key(name));
    if let Some(name) = required().find(|name| !arguments.contains_key(*name)) {
        return Err(WrongArguments::Missing { name: below(name) });
    }
    for (name, schema) in properties {
        match arguments.get_mut(name) {
            Some(Value::Object(object)) => check(schema, object, &below(name))?,
            Some(Value::Array(items)) => {
                for (at, item) in items.iter_mut().enumerate() {
                    if let Value::Object(object) = item {
                        check(&schema["items"], object, &format!("{}[{at}]", below(name)))?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes details from a schema that do not help a model: null for optional arguments, and formats of Rust's numbers.
fn clean(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(mut variants)) = object.remove(key) else { continue };
        let has_null = variants.iter().any(|variant| variant["type"] == "null");
        variants.retain(|variant| variant["type"] != "null");
        match (has_null, variants.as_mut_slice()) {
            (true, [Value::Object(only)]) => {
                for (name, value) in std::mem::take(only) {
                    object.entry(name).or_insert(value);
                }
            }
            _ => {
                variants.iter_mut().for_each(clean);
                object.insert(key.to_owned(), variants.into());
            }
        }
    }
    // An empty default needs no mention.
    let nothing = [json!(null), json!([]), json!({}), json!("")];
    if object.get("default").is_some_and(|default| nothing.contains(default)) {
        object.remove("default");
    }
    if let Some(types) = object.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(values) = object.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if object.get("type").is_some_and(|name| name == "integer") {
        object.remove("format");
        if object.get("minimum").is_some_and(|least| least == 0) {
            object.remove("minimum");
        }
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(clean);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            clean(inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(inline)]
    struct Inner {
        from: String,
        #[serde(default)]
        to: Option<String>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        command: String,
        #[serde(default)]
        timeout: Option<u64>,
        #[serde(default)]
        inputs: Vec<Inner>,
        #[serde(default)]
        one: Option<Inner>,
    }

    fn wrong(arguments: Value) -> String {
        parse::<Outer>(arguments).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_argument_is_refused_with_a_suggestion() {
        assert_eq!(
            wrong(json!({"command": "x", "timeout_secs": 1})),
            "there is no argument `timeout_secs`: did you mean `timeout`?"
        );
        assert_eq!(
            wrong(json!({"command": "x", "inputs": [{"from": "a"}, {"form": "b"}]})),
            "there is no argument `inputs[1].form`: did you mean `from`?"
        );
        assert_eq!(
            wrong(json!({"command": "x", "one": {"from": "a", "zebra": 1}})),
            "there is no argument `one.zebra`; there are `from`, `to`"
        );
        // An argument that the call already has is not suggested.
        assert_eq!(
            wrong(json!({"command": "x", "commands": "y"})),
            "there is no argument `commands`; there are `command`, `inputs`, `one`, `timeout`"
        );
    }

    #[test]
    fn a_missing_argument_is_named_by_its_path() {
        assert_eq!(wrong(json!(null)), "the argument `command` is missing");
        assert_eq!(wrong(json!({"command": null})), "the argument `command` is missing");
        assert_eq!(wrong(json!({"command": "x", "one": {"to": "a"}})), "the argument `one.from` is missing");
        assert_eq!(wrong(json!("x")), "they must be a JSON object");
        assert!(wrong(json!({"command": 7})).contains("expected a string"));
    }

    #[test]
    fn null_counts_as_missing() {
        let given =
            json!({"command": "x", "timeout": null, "inputs": null, "one": {"from": "a", "to": null}});
        let left_out = json!({"command": "x", "one": {"from": "a"}});
        assert_eq!(parse::<Outer>(given).unwrap(), parse::<Outer>(left_out).unwrap());
    }

    #[test]
    fn a_schema_says_nothing_of_null_or_of_rust() {
        let inner = json!({"type": "object", "additionalProperties": false, "required": ["from"],
            "properties": {"from": {"type": "string"}, "to": {"type": "string"}}});
        assert_eq!(
            *schema::<Outer>(),
            json!({"type": "object", "additionalProperties": false, "required": ["command"], "properties": {
                "command": {"type": "string"},
                "timeout": {"type": "integer"},
                "inputs": {"type": "array", "items": inner},
                "one": inner,
            }})
        );
    }
}
