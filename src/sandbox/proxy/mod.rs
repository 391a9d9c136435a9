//! The proxy that a command with an allow-list speaks to.
//!
//! Its listening socket was made in the command's network namespace, which has no other way out, and given to this process: so it answers
//! on the command's loopback, and connects from here. Names are resolved here, too. Every request is noted, whatever became of it.

mod request;

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::egress::{Egress, EgressProblem, EgressRequest, MAX_REQUESTS, Rule, Target, is_public};
use super::process::{poll, poll_for};

/// The most connections at the same time.
const MAX_OPEN: usize = 64;
/// How long a client may take to say what it wants.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long one address may take to answer, and how many are tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const MAX_ADDRESSES: usize = 4;
/// How long connections may take to end when their client has ended.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// How often a connection looks whether it is to end.
const TICK: Duration = Duration::from_millis(100);

/// A proxy that runs until it is finished or dropped.
pub(super) struct Proxy {
    wake: UnixStream,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    rules: Vec<Rule>,
    log: Mutex<Log>,
    stopping: AtomicBool,
    open: AtomicUsize,
}

#[derive(Default)]
struct Log {
    entries: Vec<Arc<Entry>>,
    more: u64,
}

/// One request, as far as it has come.
struct Entry {
    target: Option<Target>,
    problem: Mutex<Option<EgressProblem>>,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Proxy {
    /// Serves the clients of `listener`.
    pub(super) fn start(listener: TcpListener, rules: Vec<Rule>) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            rules,
            log: Mutex::default(),
            stopping: AtomicBool::new(false),
            open: AtomicUsize::new(0),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("proxy".into());
        let thread = thread.spawn(move || accept(&listener, &woken, &theirs))?;
        Ok(Self { wake, shared, thread: Some(thread) })
    }

    /// Ends it and says what was asked for. Its clients have ended.
    pub(super) fn finish(mut self) -> Egress {
        self.stop();
        let until = Instant::now() + END_PATIENCE;
        while self.shared.open.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let log = self.shared.log.lock().unwrap_or_else(PoisonError::into_inner);
        Egress { requests: log.entries.iter().map(|entry| entry.told()).collect(), more: log.more }
    }

    fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // It wakes the thread; if that has ended there is nobody to wake.
        let _ = self.wake.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A panic in there has nothing to undo.
            let _ = thread.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Entry {
    fn told(&self) -> EgressRequest {
        let why = *self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        EgressRequest {
            host: self.target.as_ref().map_or_else(String::new, |target| target.host.clone()),
            port: self.target.as_ref().map_or(0, |target| target.port),
            allowed: why.is_none(),
            why,
            sent: self.sent.load(Ordering::SeqCst),
            received: self.received.load(Ordering::SeqCst),
        }
    }
}

impl Shared {
    /// Notes a request, with the problem that it has if nothing better comes of it.
    fn note(&self, target: Option<Target>, problem: EgressProblem) -> Arc<Entry> {
        let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
        let entry = Arc::new(Entry { target, problem: Mutex::new(Some(problem)), sent, received });
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.entries.len() < MAX_REQUESTS {
            log.entries.push(Arc::clone(&entry));
        } else {
            log.more += 1;
        }
        entry
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

fn accept(listener: &TcpListener, woken: &UnixStream, shared: &Arc<Shared>) {
    while !shared.is_stopping() {
        let mut polled =
            [poll_for(listener.as_raw_fd(), libc::POLLIN), poll_for(woken.as_raw_fd(), libc::POLLIN)];
        if poll(&mut polled, Duration::from_secs(60)).is_err() || polled[1].revents != 0 {
            return;
        }
        while let Ok((client, _)) = listener.accept() {
            if shared.open.load(Ordering::SeqCst) >= MAX_OPEN {
                shared.note(None, EgressProblem::TooMany);
                continue;
            }
            shared.open.fetch_add(1, Ordering::SeqCst);
            let theirs = Arc::clone(shared);
            let served = std::thread::Builder::new().name("proxied".into()).spawn(move || {
                // What breaks here is the client's connection, and the client sees it.
                let _ = serve(client, &theirs);
                theirs.open.fetch_sub(1, Ordering::SeqCst);
            });
            if served.is_err() {
                shared.open.fetch_sub(1, Ordering::SeqCst);
                shared.note(None, EgressProblem::TooMany);
            }
        }
    }
}

fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(HEAD_PATIENCE))?;
    client.set_write_timeout(Some(HEAD_PATIENCE))?;
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = request::end_of_head(&bytes) {
            break Some(end);
        }
        let mut part = [0; 4096];
        let got = client.read(&mut part)?;
        bytes.extend_from_slice(&part[..got]);
        if got == 0 && bytes.is_empty() {
            return Ok(());
        }
        if got == 0 || bytes.len() > request::MAX_HEAD {
            break None;
        }
    };
    let request = head.and_then(|end| Some((end, request::parse(&bytes[..end])?)));
    let Some((end, request)) = request else {
        shared.note(None, EgressProblem::Malformed);
        return refuse(&mut client, "400 Bad Request", "this is no request to a proxy");
    };
    let target = request.target.clone();
    let shown = format!("{} port {}", target.host, target.port);
    if !target.allowed_by(&shared.rules) {
        shared.note(Some(target), EgressProblem::NotListed);
        let why = format!("{shown} is not in the contract's list of hosts");
        return refuse(&mut client, "403 Forbidden", &why);
    }
    let entry = shared.note(Some(target.clone()), EgressProblem::Unreachable);
    let server = match connect(&target) {
        Ok(server) => server,
        Err(problem) => {
            *entry.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
            let (status, why) = match problem {
                EgressProblem::PrivateAddress => {
                    ("403 Forbidden", "leads to this machine or to a private network")
                }
                EgressProblem::Unresolved => ("502 Bad Gateway", "is not known"),
                _ => ("502 Bad Gateway", "does not answer"),
            };
            return refuse(&mut client, status, &format!("{shown} {why}"));
        }
    };
    *entry.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
    if request.tunnel {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    }
    let mut first = request.head;
    first.extend_from_slice(&bytes[end..]);
    relay(&client, &server, first, &entry, shared)
}

fn refuse(client: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("git-loop: {why}\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    client.write_all(answer.as_bytes())
}

/// Connects to a host that a rule allows.
fn connect(target: &Target) -> Result<TcpStream, EgressProblem> {
    // Only a rule that spells an address out allows one.
    let addresses: Vec<SocketAddr> = if let Ok(address) = target.host.parse::<IpAddr>() {
        vec![SocketAddr::new(address, target.port)]
    } else {
        let found = (target.host.as_str(), target.port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map_err(|_| EgressProblem::Unresolved)?.collect();
        if found.is_empty() {
            return Err(EgressProblem::Unresolved);
        }
        let public: Vec<SocketAddr> = found.into_iter().filter(|address| is_public(address.ip())).collect();
        if public.is_empty() {
            return Err(EgressProblem::PrivateAddress);
        }
        public
    };
    let connected = addresses
        .iter()
        .take(MAX_ADDRESSES)
        .find_map(|address| TcpStream::connect_timeout(address, CONNECT_PATIENCE).ok());
    connected.ok_or(EgressProblem::Unreachable)
}

/// One direction of a connection.
struct Way<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    count: &'a AtomicU64,
    waiting: Vec<u8>,
    /// The sender will not say more.
    ended: bool,
    /// And the receiver knows.
    closed: bool,
}

impl Way<'_> {
    /// Moves what can be moved without waiting.
    fn step(&mut self, readable: bool, writable: bool) -> io::Result<()> {
        if readable && self.waiting.is_empty() && !self.ended {
            let mut buffer = [0; 16 << 10];
            match (&mut &*self.from).read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(got) => self.waiting.extend_from_slice(&buffer[..got]),
                Err(error) if is_patient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if (writable || readable) && !self.waiting.is_empty() {
            match (&mut &*self.to).write(&self.waiting) {
                Ok(put) => {
                    self.count.fetch_add(put as u64, Ordering::SeqCst);
                    self.waiting.drain(..put);
                }
                Err(error) if is_patient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if self.ended && self.waiting.is_empty() && !self.closed {
            self.closed = true;
            // A receiver that is gone needs no word.
            let _ = self.to.shutdown(Shutdown::Write);
        }
        Ok(())
    }
}

fn is_patient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Carries bytes both ways until both have ended.
fn relay(
    client: &TcpStream,
    server: &TcpStream,
    first: Vec<u8>,
    entry: &Entry,
    shared: &Shared,
) -> io::Result<()> {
    client.set_nonblocking(true)?;
    server.set_nonblocking(true)?;
    let way = |from, to, count, waiting| Way { from, to, count, waiting, ended: false, closed: false };
    let mut out = way(client, server, &entry.sent, first);
    let mut back = way(server, client, &entry.received, Vec::new());
    while !(shared.is_stopping() || out.closed && back.closed) {
        let events = |reading: &Way<'_>, writing: &Way<'_>| {
            let read = !reading.ended && reading.waiting.is_empty();
            (if read { libc::POLLIN } else { 0 })
                | (if writing.waiting.is_empty() { 0 } else { libc::POLLOUT })
        };
        // Who is waited for in no way is not looked at: an end that was seen would wake us again and again.
        let (at_client, at_server) = (events(&out, &back), events(&back, &out));
        let fd = |stream: &TcpStream, events| if events == 0 { -1 } else { stream.as_raw_fd() };
        let mut polled =
            [poll_for(fd(client, at_client), at_client), poll_for(fd(server, at_server), at_server)];
        poll(&mut polled, TICK)?;
        let ready = |at: usize, event| polled[at].revents & (event | libc::POLLERR | libc::POLLHUP) != 0;
        out.step(ready(0, libc::POLLIN), ready(1, libc::POLLOUT))?;
        back.step(ready(1, libc::POLLIN), ready(0, libc::POLLOUT))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        said
    }

    #[test]
    fn what_is_listed_is_carried_and_everything_is_noted() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        std::thread::spawn(move || {
            while let Ok((mut client, _)) = server.accept() {
                let mut text = String::new();
                client.read_to_string(&mut text).unwrap();
                let line = text.lines().next().unwrap_or_default().to_owned();
                write!(client, "you said {line}").unwrap();
            }
        });
        // A port that nobody listens on: it was just given back.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let rules = [format!("127.0.0.1:{port}"), format!("127.0.0.1:{closed}"), "no.such.invalid:80".into()];
        let rules = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Proxy::start(listener, rules).unwrap();
        let tunnel = ask(address, &format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nping"));
        assert_eq!(tunnel, "HTTP/1.1 200 Connection established\r\n\r\nyou said ping");
        let plain = ask(address, &format!("GET http://127.0.0.1:{port}/x HTTP/1.1\r\nHost: other\r\n\r\n"));
        assert_eq!(plain, "you said GET /x HTTP/1.1");
        for (request, status) in [
            (format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n"), "403"),
            ("CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n".to_owned(), "403"),
            (format!("CONNECT 127.0.0.1:{closed} HTTP/1.1\r\n\r\n"), "502"),
            ("CONNECT no.such.invalid:80 HTTP/1.1\r\n\r\n".to_owned(), "502"),
            ("hello\r\n\r\n".to_owned(), "400"),
            ("x".repeat(request::MAX_HEAD + 1), "400"),
        ] {
            let said = ask(address, &request);
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {said:?}");
        }
        let egress = proxy.finish();
        let told: Vec<_> = egress
            .requests
            .iter()
            .map(|one| (one.host.as_str(), one.port, one.why, one.sent, one.received))
            .collect();
        let plain =
            format!("GET /x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").len() as u64;
        assert_eq!(
            told,
            [
                ("127.0.0.1", port, None, 4, 13),
                ("127.0.0.1", port, None, plain, 24),
                ("localhost", port, Some(EgressProblem::NotListed), 0, 0),
                ("127.0.0.1", 1, Some(EgressProblem::NotListed), 0, 0),
                ("127.0.0.1", closed, Some(EgressProblem::Unreachable), 0, 0),
                ("no.such.invalid", 80, Some(EgressProblem::Unresolved), 0, 0),
                ("", 0, Some(EgressProblem::Malformed), 0, 0),
                ("", 0, Some(EgressProblem::Malformed), 0, 0),
            ]
        );
        assert!(egress.requests.iter().all(|one| one.allowed == one.why.is_none()) && egress.more == 0);
    }

    #[test]
    fn a_name_that_leads_to_this_machine_is_refused() {
        let target = Target { host: "localhost".into(), port: 80 };
        assert_eq!(connect(&target).unwrap_err(), EgressProblem::PrivateAddress);
    }
}
