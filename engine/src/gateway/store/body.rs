//! Bodies on their way through: small ones are held, so that they can be sent again and read; large ones are streamed.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use futures::{StreamExt, TryStreamExt, future, stream};

/// Largest request body that is held in memory, in bytes. A commit is far smaller: it lists snapshots, not files.
pub const HELD_BODY_MAX_BYTES: usize = 16 * 1024 * 1024;
/// How long a body may stand still before its connection is given up.
pub const BODY_IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The body of a request to the catalog.
pub enum RequestBody {
    Held(Bytes),
    /// Can be sent once only.
    Streamed {
        body: Body,
        /// What the client said, if it did.
        length_bytes: Option<u64>,
    },
}

impl RequestBody {
    pub fn empty() -> Self {
        Self::Held(Bytes::new())
    }

    /// Takes a client's body, reading no further than needed to see that it is large.
    pub async fn gather(length_bytes: Option<u64>, body: Body) -> Result<Self, axum::Error> {
        let mut rest = body.into_data_stream();
        let mut held = BytesMut::new();
        while let Some(chunk) = rest.try_next().await? {
            held.extend_from_slice(&chunk);
            if held.len() > HELD_BODY_MAX_BYTES {
                let head = stream::once(future::ready(Ok(held.freeze())));
                return Ok(Self::Streamed { body: Body::from_stream(head.chain(rest)), length_bytes });
            }
        }
        Ok(Self::Held(held.freeze()))
    }

    /// The bytes, if they are all here.
    pub fn held(&self) -> Option<&Bytes> {
        match self {
            Self::Held(bytes) => Some(bytes),
            Self::Streamed { .. } => None,
        }
    }
}

/// Ends `body` with an error when nothing of it arrives for [`BODY_IDLE_LIMIT`].
pub fn with_idle_limit(body: Body) -> Body {
    let chunks = stream::unfold(Some(body.into_data_stream()), |state| async move {
        let mut stream = state?;
        match tokio::time::timeout(BODY_IDLE_LIMIT, stream.next()).await {
            Ok(Some(chunk)) => Some((chunk.map_err(io::Error::other), Some(stream))),
            Ok(None) => None,
            Err(_) => Some((Err(io::Error::from(io::ErrorKind::TimedOut)), None)),
        }
    });
    Body::from_stream(chunks)
}

/// Reads a body of at most `limit_bytes`.
pub async fn collect(body: Body, limit_bytes: usize) -> Result<Bytes, axum::Error> {
    axum::body::to_bytes(with_idle_limit(body), limit_bytes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn small_bodies_are_held() {
        let body = RequestBody::gather(None, Body::from("{}")).await.unwrap();
        assert_eq!(body.held().unwrap().as_ref(), b"{}");
    }

    #[tokio::test]
    async fn large_bodies_pass_whole_without_being_held() {
        let chunk = Bytes::from(vec![7; 1024 * 1024]);
        let chunks = stream::iter((0..20).map(move |_| Ok::<_, io::Error>(chunk.clone())));
        match RequestBody::gather(Some(20 * 1024 * 1024), Body::from_stream(chunks)).await.unwrap() {
            RequestBody::Streamed { body, length_bytes } => {
                assert_eq!(length_bytes, Some(20 * 1024 * 1024));
                assert_eq!(collect(body, usize::MAX).await.unwrap().len(), 20 * 1024 * 1024);
            }
            RequestBody::Held(_) => panic!("20 MiB were held"),
        }
    }
}
