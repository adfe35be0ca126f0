//! The issuer: its addresses and keys, and what it says about a person.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::url::Url;
use openidconnect::{
    AccessTokenHash, AdditionalClaims, AuthType, AuthorizationCode, ClaimsVerificationError, Client,
    ClientId, ClientSecret, CsrfToken, DiscoveryError, EmptyExtraTokenFields, EndpointMaybeSet,
    EndpointNotSet, EndpointSet, IdTokenFields, IdTokenVerifier, IssuerUrl, Nonce, OAuth2TokenResponse as _,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, SignatureVerificationError,
    StandardErrorResponse, StandardTokenResponse, TokenResponse as _, TokenUrl, UserInfoClaims, UserInfoUrl,
};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::attempt::Attempt;
use super::http::{IssuerHttp, IssuerHttpError, told};
use super::options::{OidcError, OidcOptions, is_loopback, is_safe};

/// How long addresses and keys count before the issuer is asked again.
const FRESH: Duration = Duration::from_secs(3600);
/// How long to wait after the issuer could not be used, and between two looks for a key that is not known. Otherwise, a flood
/// of attempts would make the server flood the issuer.
const PAUSE: Duration = Duration::from_secs(5);

/// The signatures that an ID token may have: those with a key pair of the issuer. Everybody who knows the client secret could
/// make the others.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// The claims that OpenID Connect does not name.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OtherClaims(Map<String, Value>);

impl AdditionalClaims for OtherClaims {}

type IssuerClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<
        IdTokenFields<
            OtherClaims,
            EmptyExtraTokenFields,
            CoreGenderClaim,
            CoreJweContentEncryptionAlgorithm,
            CoreJwsSigningAlgorithm,
        >,
        CoreTokenType,
    >,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// What an issuer says about a person who signed in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Person {
    /// The subject: who it is.
    pub(super) subject: String,
    /// What else the issuer says.
    pub(super) claims: Map<String, Value>,
}

/// An issuer.
#[derive(Debug)]
pub(super) struct Issuer {
    url: IssuerUrl,
    options: OidcOptions,
    http: IssuerHttp,
    known: Mutex<Known>,
}

/// What is known about the issuer.
#[derive(Debug, Default)]
struct Known {
    /// Its addresses and keys, and when it said them.
    metadata: Option<(Arc<CoreProviderMetadata>, Instant)>,
    /// Why it could not be used, and when.
    failed: Option<(String, Instant)>,
    /// When the server last looked for a key that was not known.
    looked: Option<Instant>,
}

/// Whether something may be done again that happened then.
fn is_over(then: Option<Instant>, lasts: Duration, now: Instant) -> bool {
    then.is_none_or(|then| now.saturating_duration_since(then) >= lasts)
}

impl Issuer {
    pub(super) fn new(options: &OidcOptions) -> Result<Self, OidcError> {
        let url = IssuerUrl::new(options.issuer.clone()).map_err(|_| OidcError::Issuer)?;
        let http = IssuerHttp::new(is_loopback(url.url())).map_err(OidcError::System)?;
        Ok(Self { url, options: options.clone(), http, known: Mutex::default() })
    }

    /// The addresses and keys. Only one request at a time asks for them.
    pub(super) async fn metadata(&self) -> Result<Arc<CoreProviderMetadata>, String> {
        let mut known = self.known.lock().await;
        let now = Instant::now();
        if let Some((metadata, at)) = &known.metadata
            && !is_over(Some(*at), FRESH, now)
        {
            return Ok(Arc::clone(metadata));
        }
        let old = known.metadata.as_ref().map(|(metadata, _)| Arc::clone(metadata));
        if let Some((why, at)) = &known.failed
            && !is_over(Some(*at), PAUSE, now)
        {
            return old.ok_or_else(|| why.clone());
        }
        match self.discover().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                known.metadata = Some((Arc::clone(&metadata), Instant::now()));
                known.failed = None;
                Ok(metadata)
            }
            Err(why) => {
                tracing::warn!(issuer = self.url.as_str(), error = why, "The issuer cannot be used");
                known.failed = Some((why.clone(), Instant::now()));
                // What it said before is better than nothing.
                old.ok_or(why)
            }
        }
    }

    async fn discover(&self) -> Result<CoreProviderMetadata, String> {
        let found = CoreProviderMetadata::discover_async(self.url.clone(), &self.http).await;
        let metadata = found.map_err(|error| why(&error))?;
        let others = [
            metadata.token_endpoint().map(TokenUrl::url),
            metadata.userinfo_endpoint().map(UserInfoUrl::url),
        ];
        let own = [metadata.authorization_endpoint().url(), metadata.jwks_uri().url()];
        let unsafe_one = own.into_iter().chain(others.into_iter().flatten()).find(|url| !self.may_use(url));
        if let Some(url) = unsafe_one {
            return Err(format!("its address {url} is not https"));
        }
        if metadata.token_endpoint().is_none() {
            return Err("it has no token endpoint".to_owned());
        }
        Ok(metadata)
    }

    /// Whether an address of the issuer is safe. Only an issuer on this machine may have others there.
    fn may_use(&self, url: &Url) -> bool {
        is_safe(url) && (url.scheme() == "https" || is_loopback(self.url.url()))
    }

    /// The addresses with the keys that the issuer has now, because a key is not among those of `used`. `None` if that was
    /// just looked up.
    async fn newer_keys(&self, used: &Arc<CoreProviderMetadata>) -> Option<Arc<CoreProviderMetadata>> {
        let mut known = self.known.lock().await;
        let (now, at) = (Instant::now(), known.metadata.as_ref().map(|(_, at)| *at)?);
        if let Some((metadata, _)) = known.metadata.as_ref().filter(|known| !Arc::ptr_eq(&known.0, used)) {
            return Some(Arc::clone(metadata));
        }
        if !is_over(known.looked, PAUSE, now) {
            return None;
        }
        known.looked = Some(now);
        let keys = CoreJsonWebKeySet::fetch_async(used.jwks_uri(), &self.http).await;
        let keys = keys.inspect_err(|error| tracing::warn!(error = why(error), "The issuer gives no keys"));
        let metadata = Arc::new(used.as_ref().clone().set_jwks(keys.ok()?));
        known.metadata = Some((Arc::clone(&metadata), at));
        Some(metadata)
    }

    fn client(&self, metadata: &CoreProviderMetadata) -> Result<IssuerClient, String> {
        let secret = self.options.client_secret.as_ref();
        let secret = secret.map(|secret| ClientSecret::new(secret.expose_secret().to_owned()));
        let client_id = ClientId::new(self.options.client_id.clone());
        let methods = metadata.token_endpoint_auth_methods_supported();
        let takes = |method| methods.is_some_and(|methods| methods.contains(&method));
        let only_in_body =
            takes(CoreClientAuthMethod::ClientSecretPost) && !takes(CoreClientAuthMethod::ClientSecretBasic);
        let redirect = RedirectUrl::new(self.options.callback_url()).map_err(|error| error.to_string())?;
        Ok(Client::from_provider_metadata(metadata.clone(), client_id, secret)
            .set_redirect_uri(redirect)
            .set_auth_type(if only_in_body { AuthType::RequestBody } else { AuthType::BasicAuth }))
    }

    /// Where a browser signs in.
    pub(super) async fn sign_in_url(&self, attempt: &Attempt) -> Result<Url, String> {
        let client = self.client(&*self.metadata().await?)?;
        let verifier = PkceCodeVerifier::new(attempt.verifier.clone());
        let (state, nonce) = (attempt.state.clone(), attempt.nonce.clone());
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let (url, _, _) = client
            .authorize_url(flow, move || CsrfToken::new(state), move || Nonce::new(nonce))
            .add_scopes(self.options.scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .url();
        Ok(url)
    }

    /// Who signed in: what the issuer gives for a code, checked. With `claims`, the issuer is also asked for those that the ID
    /// token does not have.
    pub(super) async fn person(
        &self,
        code: String,
        attempt: &Attempt,
        claims: &[&str],
    ) -> Result<Person, String> {
        let mut metadata = self.metadata().await?;
        let client = self.client(&metadata)?;
        let answer = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| error.to_string())?
            .set_pkce_verifier(PkceCodeVerifier::new(attempt.verifier.clone()))
            .request_async(&self.http)
            .await
            .map_err(|error| refused(&error))?;
        let token = answer.id_token().ok_or("its answer has no ID token")?;
        let nonce = Nonce::new(attempt.nonce.clone());
        let mut verifier = self.verifier(&metadata);
        let mut checked = token.claims(&verifier, &nonce);
        if let Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) =
            checked
            && let Some(newer) = self.newer_keys(&metadata).await
        {
            metadata = newer;
            verifier = self.verifier(&metadata);
            checked = token.claims(&verifier, &nonce);
        }
        let found = checked.map_err(|error| not_valid(&error))?;
        if let Some(expected) = found.access_token_hash() {
            let key = token.signing_key(&verifier).map_err(|error| error.to_string())?;
            let algorithm = token.signing_alg().map_err(|error| error.to_string())?;
            let actual = AccessTokenHash::from_token(answer.access_token(), algorithm, key);
            if actual.map_err(|error| error.to_string())? != *expected {
                return Err("its ID token is not valid: it belongs to another access token".to_owned());
            }
        }
        let (subject, mut all) = (found.subject().clone(), map(found));
        if client.user_info_url().is_some() && claims.iter().any(|name| !all.contains_key(*name)) {
            let request = client.user_info(answer.access_token().clone(), Some(subject.clone()));
            let request = request.map_err(|error| error.to_string())?;
            let info: Result<UserInfoClaims<OtherClaims, CoreGenderClaim>, _> =
                request.request_async(&self.http).await;
            match info {
                // What the ID token says is signed.
                Ok(info) => map(&info).into_iter().for_each(|(name, value)| {
                    all.entry(name).or_insert(value);
                }),
                // Without it, the person may still come in.
                Err(error) => tracing::warn!(error = told(&error), "The issuer says no more about a person"),
            }
        }
        Ok(Person { subject: subject.to_string(), claims: all })
    }

    /// What checks an ID token: signature, issuer, audience, times and nonce.
    fn verifier(&self, metadata: &CoreProviderMetadata) -> IdTokenVerifier<'static, CoreJsonWebKey> {
        let client = ClientId::new(self.options.client_id.clone());
        // That of a public client never uses the client secret as a key.
        IdTokenVerifier::new_public_client(client, self.url.clone(), metadata.jwks().clone())
            .set_allowed_algs(ALGORITHMS)
    }
}

/// Claims as a map.
fn map(claims: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(claims) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Why the addresses or the keys are missing.
fn why(error: &DiscoveryError<IssuerHttpError>) -> String {
    match error {
        DiscoveryError::Response(status, ..) if !status.is_success() => {
            format!("it answered with status {}", status.as_u16())
        }
        DiscoveryError::Request(error) => error.to_string(),
        // The body of an answer tells nothing to a person.
        DiscoveryError::Response(_, _, why) => format!("its answer cannot be understood: {why}"),
        other => format!("its answer cannot be understood: {}", told(other)),
    }
}

type TokenError = RequestTokenError<IssuerHttpError, StandardErrorResponse<CoreErrorResponseType>>;

/// Why there is no token.
fn refused(error: &TokenError) -> String {
    match error {
        RequestTokenError::ServerResponse(said) => format!("it refused: {said}"),
        RequestTokenError::Request(error) => error.to_string(),
        // This may have tokens in it.
        RequestTokenError::Parse(error, _) => format!("its answer cannot be understood: {error}"),
        RequestTokenError::Other(why) => format!("its answer cannot be understood: {why}"),
    }
}

fn not_valid(error: &ClaimsVerificationError) -> String {
    format!("its ID token is not valid: {}", told(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issuer_is_not_asked_again_at_once() {
        let now = Instant::now();
        assert!(is_over(None, PAUSE, now));
        assert!(!is_over(Some(now), PAUSE, now));
        assert!(!is_over(Some(now), PAUSE, now + PAUSE / 2));
        assert!(is_over(Some(now), PAUSE, now + PAUSE));
        // A clock that went back asks for nothing.
        assert!(!is_over(Some(now + PAUSE), PAUSE, now));
    }
}
