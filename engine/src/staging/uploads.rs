//! Gives up uploads in parts that nobody will finish. S3 keeps their parts for ever, and shows them in no listing of
//! objects; DuckDB leaves them behind when a statement fails. Other stores forget them by themselves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use axum::http::{Method, Request};
use coldfront_common::frame::Lake;
use futures::TryStreamExt;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequestBody, HttpResponseBody, ReqwestConnector};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::store::{self, Access, Place, S3Access};

/// What stays as it is in a signed URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// As above, for a whole path.
const ENCODED_PATH: &AsciiSet = &ENCODED.remove(b'/');

/// When to look again after an upload was given up.
const PAUSES: &[Duration] = &[
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];

/// Why uploads may still be there.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("cannot set up access to the object store")]
    Setup(#[source] object_store::Error),
    #[error("the object store does not answer")]
    Http(#[from] HttpError),
    #[error("cannot ask the object store")]
    Request(#[from] axum::http::Error),
    #[error("the object store answered {status} when asked about uploads")]
    Status { status: u16 },
}

/// An upload that was begun.
#[derive(Debug, PartialEq, Eq)]
struct Upload {
    key: String,
    id: String,
}

/// Gives up every upload of one of `objects`.
pub async fn give_up(access: &Access<'_>, objects: impl Iterator<Item = &String>) -> Result<(), UploadError> {
    let Some(access) = access.s3() else { return Ok(()) };
    let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for place in objects.map(|object| Place::parse(object)).filter(|place| place.scheme.starts_with("s3")) {
        keys.entry(place.bucket).or_default().insert(place.key);
    }
    if keys.is_empty() {
        return Ok(());
    }
    let client = ReqwestConnector::default().connect(&store::client_options()).map_err(UploadError::Setup)?;
    for (bucket, keys) in keys {
        let bucket = Bucket { access: &access, url: access.bucket_url(bucket), client: &client };
        // A part that was on its way when its upload was given up can bring the upload back.
        for pause in PAUSES {
            if bucket.give_up(&keys).await? == 0 {
                break;
            }
            tokio::time::sleep(*pause).await;
        }
    }
    Ok(())
}

/// Names of the objects below `url` that have an unfinished upload.
pub async fn unfinished(lake: &Lake, url: &str) -> Result<Vec<String>, UploadError> {
    let Some(access) = (Access { lake, vended: HashMap::new() }).s3() else { return Ok(Vec::new()) };
    let place = Place::parse(url);
    let client = ReqwestConnector::default().connect(&store::client_options()).map_err(UploadError::Setup)?;
    let bucket = Bucket { access: &access, url: access.bucket_url(place.bucket), client: &client };
    Ok(bucket.uploads(place.key).await?.into_iter().map(|upload| upload.key).collect())
}

struct Bucket<'a> {
    access: &'a S3Access,
    url: String,
    client: &'a HttpClient,
}

impl Bucket<'_> {
    /// Gives up every upload of `keys`; returns how many there were.
    async fn give_up(&self, keys: &BTreeSet<&str>) -> Result<usize, UploadError> {
        let mut uploads = self.uploads(&common_prefix(keys)).await?;
        uploads.retain(|upload| keys.contains(upload.key.as_str()));
        for upload in &uploads {
            self.abort(upload).await?;
        }
        Ok(uploads.len())
    }

    /// All uploads of keys with a prefix.
    async fn uploads(&self, prefix: &str) -> Result<Vec<Upload>, UploadError> {
        let mut found = Vec::new();
        let mut after: Option<(String, String)> = None;
        loop {
            let mut query = format!("uploads=&prefix={}", utf8_percent_encode(prefix, ENCODED));
            if let Some((key, id)) = &after {
                let (key, id) = (utf8_percent_encode(key, ENCODED), utf8_percent_encode(id, ENCODED));
                query += &format!("&key-marker={key}&upload-id-marker={id}");
            }
            let page = self.ask(Method::GET, &format!("{}/?{query}", self.url)).await?;
            found.extend(parse_uploads(&page));
            let truncated = element(&page, "IsTruncated").is_some_and(|(value, _)| value == "true");
            let next = element(&page, "NextKeyMarker").zip(element(&page, "NextUploadIdMarker"));
            match next {
                Some(((key, _), (id, _))) if truncated => after = Some((unescape(key), unescape(id))),
                _ => return Ok(found),
            }
        }
    }

    async fn abort(&self, upload: &Upload) -> Result<(), UploadError> {
        let key = utf8_percent_encode(&upload.key, ENCODED_PATH);
        let id = utf8_percent_encode(&upload.id, ENCODED);
        match self.ask(Method::DELETE, &format!("{}/{key}?uploadId={id}", self.url)).await {
            // Somebody else was faster.
            Err(UploadError::Status { status: 404 }) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Sends a signed request; returns the body of the answer.
    async fn ask(&self, method: Method, url: &str) -> Result<String, UploadError> {
        let mut request = Request::builder().method(method).uri(url).body(HttpRequestBody::empty())?;
        let credential = AwsCredential {
            key_id: self.access.key.clone(),
            secret_key: self.access.secret.clone(),
            token: self.access.session_token.clone(),
        };
        AwsAuthorizer::new(&credential, "s3", &self.access.region).authorize(&mut request, None);
        let (head, body): (_, HttpResponseBody) = self.client.execute(request).await?.into_parts();
        if !head.status.is_success() {
            return Err(UploadError::Status { status: head.status.as_u16() });
        }
        let bytes: Vec<u8> = body.bytes_stream().map_ok(Vec::from).try_concat().await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The longest prefix that all keys share.
fn common_prefix(keys: &BTreeSet<&str>) -> String {
    // In sorted order, what the first and the last share is shared by all.
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return String::new() };
    first.chars().zip(last.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
}

/// Reads the uploads out of a `ListMultipartUploadsResult`.
fn parse_uploads(xml: &str) -> Vec<Upload> {
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some((upload, after)) = element(rest, "Upload") {
        if let (Some((key, _)), Some((id, _))) = (element(upload, "Key"), element(upload, "UploadId")) {
            found.push(Upload { key: unescape(key), id: unescape(id) });
        }
        rest = after;
    }
    found
}

/// The content of the first element `name`, and what follows it.
fn element<'a>(xml: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let start = xml.find(&format!("<{name}>"))? + name.len() + 2;
    let length = xml[start..].find(&format!("</{name}>"))?;
    Some((&xml[start..start + length], &xml[start + length..]))
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#34;", "\"");
    plain.replace("&apos;", "'").replace("&#39;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_read_from_the_listing() {
        let xml = "<?xml version=\"1.0\"?><ListMultipartUploadsResult><Bucket>b</Bucket><IsTruncated>false</IsTruncated>\
                   <Upload><Key>n/t/a&amp;b.parquet</Key><UploadId>1</UploadId></Upload>\
                   <Upload><Initiated>x</Initiated><UploadId>2</UploadId><Key>n/t/c.parquet</Key></Upload>\
                   <Upload><Key>no id</Key></Upload></ListMultipartUploadsResult>";
        let upload = |key: &str, id: &str| Upload { key: key.into(), id: id.into() };
        assert_eq!(parse_uploads(xml), [upload("n/t/a&b.parquet", "1"), upload("n/t/c.parquet", "2")]);
        assert!(parse_uploads("").is_empty());
    }

    #[test]
    fn the_common_prefix_covers_all_keys() {
        assert_eq!(common_prefix(&BTreeSet::from(["a/b/1", "a/b/22", "a/c"])), "a/");
        assert_eq!(common_prefix(&BTreeSet::from(["x"])), "x");
        assert_eq!(common_prefix(&BTreeSet::from(["a", "b"])), "");
    }
}
