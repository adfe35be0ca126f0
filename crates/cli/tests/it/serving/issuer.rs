//! An OpenID Connect issuer with real keys, which misbehaves as a test wishes.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// The name and the secret of the server at the issuer.
pub(super) const CLIENT: &str = "prowess";
pub(super) const SECRET: &str = "correct-horse-battery-staple";

/// What is wrong with an issuer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    Nothing,
    WrongNonce,
    NoNonce,
    WrongAudience,
    OneMoreAudience,
    WrongIssuer,
    Expired,
    /// It signs with a key that it does not publish, under the name of one that it does.
    OtherKey,
    /// The same, under a name of its own.
    UnknownKey,
    /// `alg` is `none`, without a signature.
    Unsigned,
    /// It signs with the client secret.
    SharedSecret,
    /// It signs with the published key, as if that were a shared secret.
    KeyAsSecret,
    /// The access token is not the one of the ID token.
    OtherAccessToken,
    NoIdToken,
    NotJson,
    RefusesCode,
    TooMuch,
    Redirects,
    NeverAnswers,
}

/// Somebody who signed in at the issuer: their claims, and what the server asked for.
struct Grant {
    claims: Value,
    asked: HashMap<String, String>,
}

#[derive(Default)]
struct State {
    fault: Fault,
    /// The published keys.
    keys: Vec<(String, Arc<EcdsaKeyPair>)>,
    grants: HashMap<String, Grant>,
    /// What only the address for user information says, by access token.
    more: HashMap<String, Value>,
    /// The paths of all requests.
    requests: Vec<String>,
    /// Connections that get no answer.
    held: Vec<TcpStream>,
}

/// An issuer on a port of its own.
pub(super) struct Issuer {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
}

fn key() -> Arc<EcdsaKeyPair> {
    Arc::new(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    pub(super) fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(super) fn on(listener: TcpListener) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State { keys: vec![("first".to_owned(), key())], ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let (own, address) = (Arc::clone(&state), url.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &own, &address);
            }
        });
        Self { url, state }
    }

    pub(super) fn fail(&self, fault: Fault) {
        self.state.lock().unwrap().fault = fault;
    }

    /// Replaces the keys.
    pub(super) fn rotate(&self) {
        self.state.lock().unwrap().keys = vec![("second".to_owned(), key())];
    }

    /// A person signs in at the address that the server led to. Returns the code for the server.
    pub(super) fn sign_in(&self, asked: &HashMap<String, String>, claims: Value) -> String {
        let mut state = self.state.lock().unwrap();
        let code = format!("code{}", state.grants.len());
        state.grants.insert(code.clone(), Grant { claims, asked: asked.clone() });
        code
    }

    /// What the issuer says only if it is asked for user information with the token of a code.
    pub(super) fn say_more(&self, code: &str, claims: Value) {
        self.state.lock().unwrap().more.insert(format!("Bearer access-{code}"), claims);
    }

    /// How many requests came to a path.
    pub(super) fn requests(&self, path: &str) -> usize {
        self.state.lock().unwrap().requests.iter().filter(|asked| *asked == path).count()
    }
}

/// The parameters of an address or of a form.
pub(super) fn parameters(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let pair = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&pair).unwrap(), 16).unwrap()
                }
                byte => byte,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn answer(mut stream: TcpStream, state: &Mutex<State>, url: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut headers) = (String::new(), HashMap::new());
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 || line == "\r\n" {
            break;
        }
        let (name, value) = line.trim_end().split_once(": ").unwrap();
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut state = state.lock().unwrap();
    state.requests.push(path.clone());
    let (status, body) = match path.as_str() {
        "/.well-known/openid-configuration" => (200, discovery(url)),
        "/jwks" => (200, published(&state)),
        "/token" => {
            if state.fault == Fault::NeverAnswers {
                state.held.push(stream);
                return;
            }
            tokens(&mut state, url, &headers, &String::from_utf8(body).unwrap())
        }
        "/userinfo" => match state.more.get(&headers["authorization"]) {
            Some(claims) => (200, claims.to_string()),
            None => (401, "{}".to_owned()),
        },
        _ => (404, "{}".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nlocation: {url}/elsewhere\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // The server may have hung up.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

fn discovery(url: &str) -> String {
    json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "userinfo_endpoint": format!("{url}/userinfo"),
        "jwks_uri": format!("{url}/jwks"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        // A server that believed this would accept signatures with the client secret.
        "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
    })
    .to_string()
}

fn published(state: &State) -> String {
    let keys: Vec<Value> = state
        .keys
        .iter()
        .map(|(name, key)| {
            let point = key.public_key().as_ref();
            json!({
                "kty": "EC", "crv": "P-256", "use": "sig", "kid": name,
                "x": encoded(&point[1..33]), "y": encoded(&point[33..65]),
            })
        })
        .collect();
    json!({"keys": keys}).to_string()
}

/// The answer to a code.
fn tokens(state: &mut State, url: &str, headers: &HashMap<String, String>, form: &str) -> (u16, String) {
    let refused = |why: &str| {
        (400, json!({"error": "invalid_grant", "error_description": format!("<b>{why}</b>")}).to_string())
    };
    let form = parameters(form);
    let basic = STANDARD.encode(format!("{CLIENT}:{SECRET}"));
    assert_eq!(headers["authorization"], format!("Basic {basic}"), "the server proves who it is");
    match state.fault {
        Fault::RefusesCode => return refused("The code is not valid."),
        Fault::TooMuch => return (200, "x".repeat(2 << 20)),
        Fault::NotJson => return (200, "<html>".to_owned()),
        Fault::Redirects => return (307, String::new()),
        _ => {}
    }
    // A code works once.
    let Some(grant) = state.grants.remove(&form["code"]) else { return refused("There is no such code.") };
    let asked = &grant.asked;
    let challenge = encoded(digest::digest(&digest::SHA256, form["code_verifier"].as_bytes()));
    if asked["code_challenge"] != challenge || asked["redirect_uri"] != form["redirect_uri"] {
        return refused("The verifier or the address is wrong.");
    }
    let access = format!("access-{}", form["code"]);
    let mut answer = json!({"access_token": access, "token_type": "Bearer", "expires_in": 60});
    if state.fault != Fault::NoIdToken {
        answer["id_token"] = id_token(state, url, &grant, &access).into();
    }
    (200, answer.to_string())
}

fn id_token(state: &State, url: &str, grant: &Grant, access: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let hash = digest::digest(&digest::SHA256, access.as_bytes());
    let mut claims = json!({
        "iss": url, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": grant.asked["nonce"],
        "at_hash": encoded(&hash.as_ref()[..16]),
    });
    claims.as_object_mut().unwrap().extend(grant.claims.as_object().unwrap().clone());
    let (name, mut signs) = state.keys[0].clone();
    let (mut algorithm, mut name) = ("ES256", name);
    match state.fault {
        Fault::WrongNonce => claims["nonce"] = "of another browser".into(),
        Fault::NoNonce => drop(claims.as_object_mut().unwrap().remove("nonce")),
        Fault::WrongAudience => claims["aud"] = "another server".into(),
        Fault::OneMoreAudience => claims["aud"] = json!([CLIENT, "another server"]),
        Fault::WrongIssuer => claims["iss"] = "https://another.example".into(),
        Fault::Expired => claims["exp"] = (now - 1).into(),
        Fault::OtherAccessToken => claims["at_hash"] = encoded([0; 16]).into(),
        Fault::OtherKey => signs = key(),
        Fault::UnknownKey => (name, signs) = ("unknown".to_owned(), key()),
        Fault::Unsigned => algorithm = "none",
        Fault::SharedSecret | Fault::KeyAsSecret => algorithm = "HS256",
        _ => {}
    }
    let header = json!({"alg": algorithm, "kid": name, "typ": "JWT"});
    let text = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let with = |secret: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        encoded(hmac::sign(&key, text.as_bytes()))
    };
    let signature = match state.fault {
        Fault::Unsigned => String::new(),
        Fault::SharedSecret => with(SECRET.as_bytes()),
        Fault::KeyAsSecret => with(signs.public_key().as_ref()),
        _ => encoded(signs.sign(&SystemRandom::new(), text.as_bytes()).unwrap()),
    };
    format!("{text}.{signature}")
}
