//! Page tokens: opaque, and good only for the request that they were given out for.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::lifecycle::{Error, Result};

const DIGEST: usize = 8;

/// A token that goes on after `cursor`, for the query that `query` describes.
pub(crate) fn token(query: &str, cursor: &str) -> String {
    let mut bytes = digest(query, cursor).to_vec();
    bytes.extend_from_slice(cursor.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The cursor of a token; none for the first page.
pub(crate) fn cursor(query: &str, token: &str) -> Result<Option<String>> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|_| Error::PageTokenInvalid)?;
    let (found, cursor) = bytes
        .split_at_checked(DIGEST)
        .ok_or(Error::PageTokenInvalid)?;
    let cursor = std::str::from_utf8(cursor).map_err(|_| Error::PageTokenInvalid)?;
    if found != digest(query, cursor) {
        return Err(Error::PageTokenInvalid);
    }
    Ok(Some(cursor.to_owned()))
}

fn digest(query: &str, cursor: &str) -> [u8; DIGEST] {
    let mut hash = Sha256::new();
    hash.update(query.as_bytes());
    hash.update([0]);
    hash.update(cursor.as_bytes());
    let mut short = [0; DIGEST];
    short.copy_from_slice(&hash.finalize()[..DIGEST]);
    short
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_query_only() {
        let given = token("list /r", "cursor");
        assert_eq!(cursor("list /r", &given).unwrap().unwrap(), "cursor");
        assert!(cursor("list /other", &given).is_err());
        assert!(cursor("list /r", "x").is_err());
        assert!(cursor("list /r", "!!").is_err());
        assert_eq!(cursor("list /r", "").unwrap(), None);
    }
}
