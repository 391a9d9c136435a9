//! Output of a command, however much it is: whole if it is short, else its start and its end.

/// What a stream carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// How many bytes were read in all.
    pub total: u64,
    /// Every byte, if there were at most [`keep_whole`](super::Command::keep_whole).
    pub whole: Option<Vec<u8>>,
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes, without those that are already in `head`.
    pub tail: Vec<u8>,
}

impl Captured {
    /// An empty stream.
    pub fn empty() -> Self {
        Self { total: 0, whole: Some(Vec::new()), head: Vec::new(), tail: Vec::new() }
    }

    /// How many bytes lie between `head` and `tail`.
    pub fn cut(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Head and tail, with a line of its own between them that says how much was cut, if anything was.
    pub fn evidence(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        let cut = self.cut();
        if cut > 0 {
            if bytes.last().is_some_and(|&byte| byte != b'\n') {
                bytes.push(b'\n');
            }
            bytes.extend_from_slice(format!("[… {cut} bytes cut …]\n").as_bytes());
        }
        bytes.extend_from_slice(&self.tail);
        bytes
    }
}

/// Reads a stream piece by piece; holds at most `keep_whole` and three times `head_tail` bytes.
#[derive(Debug)]
pub(super) struct Capture {
    total: u64,
    keep_whole: usize,
    head_tail: usize,
    whole: Option<Vec<u8>>,
    head: Vec<u8>,
    /// Everything behind `head`, trimmed from the front whenever it has grown to twice `head_tail`.
    tail: Vec<u8>,
}

// Only the unix runner reads streams.
#[cfg_attr(not(unix), allow(dead_code))]
impl Capture {
    pub(super) fn new(keep_whole: usize, head_tail: usize) -> Self {
        let (head, tail) = (Vec::new(), Vec::new());
        Self { total: 0, keep_whole, head_tail, whole: Some(Vec::new()), head, tail }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if let Some(whole) = &mut self.whole {
            if whole.len() + bytes.len() <= self.keep_whole {
                whole.extend_from_slice(bytes);
            } else {
                self.whole = None;
            }
        }
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_tail - self.head.len()));
        self.head.extend_from_slice(head);
        let last = &rest[rest.len().saturating_sub(self.head_tail)..];
        if last.len() < rest.len() {
            // What is held is one piece of the stream.
            self.tail.clear();
        }
        if self.tail.len() + last.len() > 2 * self.head_tail {
            let surplus = (self.tail.len() + last.len() - self.head_tail).min(self.tail.len());
            self.tail.drain(..surplus);
        }
        self.tail.extend_from_slice(last);
    }

    /// How many bytes were read.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes are kept of the start, and of the end.
    pub(super) fn head_tail(&self) -> u64 {
        self.head_tail as u64
    }

    /// Everything after the first `from` bytes, in two pieces; `None` if some of it is not held any more.
    pub(super) fn since(&self, from: u64) -> Option<[&[u8]; 2]> {
        let head = self.head.len() as u64;
        let tail = self.total - self.tail.len() as u64;
        if from < tail && head < tail {
            return None;
        }
        let after = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let head = &self.head[after(from.min(head))..];
        Some([head, &self.tail[after(from.max(tail) - tail)..]])
    }

    /// What would be kept if nothing more came, without the whole.
    pub(super) fn so_far(&self) -> Captured {
        let tail = self.tail[self.tail.len().saturating_sub(self.head_tail)..].to_vec();
        Captured { total: self.total, whole: None, head: self.head.clone(), tail }
    }

    pub(super) fn finish(mut self) -> Captured {
        let surplus = self.tail.len().saturating_sub(self.head_tail);
        self.tail.drain(..surplus);
        Captured { total: self.total, whole: self.whole, head: self.head, tail: self.tail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            keep in 0_usize..300,
            cap in 0_usize..50,
        ) {
            let all = pieces.concat();
            let mut capture = Capture::new(keep, cap);
            for piece in &pieces {
                capture.push(piece);
                prop_assert!(capture.tail.len() <= 2 * cap);
            }
            for from in 0..=all.len() {
                let held = capture.since(from as u64).map(|pieces| pieces.concat());
                prop_assert!(held.is_some() || (all.len() > 2 * cap && all.len() - from > cap));
                if let Some(held) = held {
                    prop_assert_eq!(&held[..], &all[from..]);
                }
            }
            let so_far = capture.so_far();
            let got = capture.finish();
            prop_assert_eq!(&so_far, &Captured { whole: None, ..got.clone() });
            prop_assert_eq!(got.total, all.len() as u64);
            prop_assert_eq!(got.whole.is_some(), all.len() <= keep);
            if let Some(whole) = &got.whole {
                prop_assert_eq!(whole, &all);
            }
            prop_assert_eq!(&got.head[..], &all[..all.len().min(cap)]);
            let tail = (all.len() - got.head.len()).min(cap);
            prop_assert_eq!(&got.tail[..], &all[all.len() - tail..]);
            if all.len() <= 2 * cap {
                prop_assert_eq!(got.evidence(), all);
            }
        }
    }

    #[test]
    fn the_cut_is_stated() {
        let mut capture = Capture::new(4, 3);
        capture.push(b"abcdefghij");
        let got = capture.finish();
        assert_eq!(got.evidence(), "abc\n[… 4 bytes cut …]\nhij".as_bytes());
        assert_eq!(got.whole, None);
        assert_eq!(Captured::empty().evidence(), b"");
    }
}
