//! The SSH wire encoding, as much of it as signatures and revocation lists need (RFC 4251, section 5).

/// Reads values from the front of a byte slice. `None` means that the bytes ended too early.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'a> {
    rest: &'a [u8],
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(count)?;
        self.rest = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A `string`: four bytes of length, then that many bytes.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u32()?).ok()?;
        self.bytes(count)
    }

    /// A `string` that is UTF-8.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.string()?).ok()
    }
}

/// Appends a `string` to `out`. Nothing that we encode comes near the 4 GiB limit of the format.
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let count = u32::try_from(bytes.len()).expect("an SSH string is shorter than 4 GiB");
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Wire, put_string};

    #[test]
    fn reads_what_it_wrote_and_never_past_the_end() {
        let mut bytes = vec![7];
        put_string(&mut bytes, b"abc");
        bytes.extend_from_slice(&5_u64.to_be_bytes());
        let mut wire = Wire::new(&bytes);
        assert_eq!(wire.u8(), Some(7));
        assert_eq!(wire.text(), Some("abc"));
        assert_eq!(wire.u64(), Some(5));
        assert!(wire.is_empty());
        assert_eq!(wire.u8(), None);
        assert_eq!(Wire::new(&[0, 0, 0, 9, 1]).string(), None);
    }

    proptest! {
        #[test]
        fn strings_round_trip(value in proptest::collection::vec(any::<u8>(), 0..64), tail in any::<u8>()) {
            let mut bytes = Vec::new();
            put_string(&mut bytes, &value);
            bytes.push(tail);
            let mut wire = Wire::new(&bytes);
            prop_assert_eq!(wire.string(), Some(&value[..]));
            prop_assert_eq!(wire.u8(), Some(tail));
        }

        #[test]
        fn is_total(bytes in proptest::collection::vec(any::<u8>(), 0..32)) {
            let mut wire = Wire::new(&bytes);
            while wire.string().is_some() {}
        }
    }
}
