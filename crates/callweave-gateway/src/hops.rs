//! The gateways of this kind that a request came through: a request that comes back to one of them would go round for
//! ever.

use callweave::upstream::ErrorClass;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::failure::RequestFailure;
use crate::trace::made;

/// The header that names them, each by a word that it made when it began.
pub(crate) const VIA: HeaderName = HeaderName::from_static("x-callweave-via");

/// The maximum number of gateways in a row.
const MAX: usize = 8;

/// The word for this gateway.
#[derive(Debug)]
pub(crate) struct GatewayMark(HeaderValue);

impl GatewayMark {
    pub(crate) fn new() -> Self {
        Self(HeaderValue::try_from(made::<8>()).unwrap_or_else(|_| HeaderValue::from_static("callweave")))
    }

    /// Says in the headers of a request that it went through here.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        let signed = match headers.get(VIA) {
            Some(via) => [via.as_bytes(), b", ", self.0.as_bytes()].concat(),
            None => {
                headers.insert(VIA, self.0.clone());
                return;
            }
        };
        if let Ok(signed) = HeaderValue::from_bytes(&signed) {
            headers.insert(VIA, signed);
        }
    }

    /// Whether a request may go on from here.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), RequestFailure> {
        let Some(via) = headers.get(VIA) else { return Ok(()) };
        let mut count = 0;
        for word in via.as_bytes().split(|byte| *byte == b',') {
            count += 1;
            if word.trim_ascii() == self.0.as_bytes() || count > MAX {
                return Err(around());
            }
        }
        Ok(())
    }
}

fn around() -> RequestFailure {
    let what = "the request goes round: it came back to a gateway that it went through, because the url of an \
                upstream leads to this gateway (ANTHROPIC_BASE_URL and its like are read by clients and by this gateway)";
    RequestFailure::new(ErrorClass::Other, what).with_status(StatusCode::LOOP_DETECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_back_is_refused_and_so_is_a_long_row() {
        let (one, two) = (GatewayMark::new(), GatewayMark::new());
        let mut headers = HeaderMap::new();
        assert!(one.check(&headers).is_ok());
        one.sign(&mut headers);
        two.sign(&mut headers);
        assert!(GatewayMark::new().check(&headers).is_ok());
        for own in [&one, &two] {
            assert_eq!(own.check(&headers).expect_err("it was here").status(), StatusCode::LOOP_DETECTED);
        }
        for _ in 0..MAX {
            GatewayMark::new().sign(&mut headers);
        }
        assert!(GatewayMark::new().check(&headers).is_err());
    }
}
