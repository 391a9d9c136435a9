//! Small sources whose numbers are counted by hand.

use proptest::prelude::*;

use super::FallbackKind::{BroadHandler, CatchAll, DefaultValue, DiscardedError};
use super::Language::{Go, JavaScript, Python, Rust, Tsx, TypeScript};
use super::*;

const ALL: [Language; 6] = [Rust, Python, JavaScript, TypeScript, Tsx, Go];

fn counted(language: Language, source: &str) -> Facts {
    counted_at(language, "src/lib", source)
}

fn counted_at(language: Language, path: &str, source: &str) -> Facts {
    let facts = facts(language, path.as_bytes(), source.as_bytes()).unwrap();
    assert!(!facts.broken, "{source}");
    facts
}

/// The functions with their complexities.
fn functions(facts: &Facts) -> Vec<(&str, u32)> {
    facts.functions.iter().map(|one| (one.name.as_str(), one.complexity)).collect()
}

/// The complexity of one function with this body.
#[track_caller]
fn complexity(language: Language, body: &str) -> u32 {
    let source = match language {
        Rust => format!("fn f() {{ {body} }}"),
        Python => format!("def f():\n    {}\n", body.replace('\n', "\n    ")),
        Go => format!("package p\nfunc f() {{\n{body}\n}}\n"),
        _ => format!("function f() {{ {body} }}"),
    };
    let facts = counted(language, &source);
    let functions = functions(&facts);
    assert_eq!(functions.len(), 1, "{functions:?}");
    functions[0].1
}

fn names(facts: &Facts) -> Vec<String> {
    facts.interfaces.iter().map(|one| format!("{} {}", one.kind, one.name)).collect()
}

/// The fallback branches: line, kind and function.
fn fallbacks(facts: &Facts) -> Vec<(usize, FallbackKind, &str)> {
    facts.fallbacks.iter().map(|one| (one.line, one.kind, one.within.as_str())).collect()
}

/// Those of one function with this body.
#[track_caller]
fn kinds(language: Language, body: &str) -> Vec<FallbackKind> {
    let source = match language {
        Rust => format!("fn f() {{ {body} }}"),
        Python => format!("def f():\n    {}\n", body.replace('\n', "\n    ")),
        Go => format!("package p\nfunc f() {{\n{body}\n}}\n"),
        _ => format!("function f() {{ {body} }}"),
    };
    counted(language, &source).fallbacks.into_iter().map(|one| one.kind).collect()
}

#[test]
fn a_language_is_known_by_the_end_of_the_name() {
    assert_eq!(Language::of(b"src/a.rs"), Some(Rust));
    assert_eq!(Language::of(b"a.d.ts"), Some(TypeScript));
    assert_eq!(Language::of(b"a.rs/b"), None);
    assert_eq!(Language::of(b"Makefile"), None);
    assert_eq!(Language::of(b"x.RS"), Some(Rust));
    assert_eq!(Language::of(b"x.rss"), None);
    assert_eq!(Language::of(b""), None);
}

#[test]
fn a_language_is_known_by_the_first_line_of_a_script() {
    let of = |line: &str| Language::of_file(b"bin/tool", format!("{line}\nrest\n").as_bytes());
    for line in [
        "#!/usr/bin/python",
        "#!/usr/bin/env -S python3.11 -u",
        "#! /opt/bin/pypy3",
        "#!/usr/bin/env Python3",
    ] {
        assert_eq!(of(line), Some(Python), "{line}");
    }
    assert_eq!(of("#!/usr/bin/env node"), Some(JavaScript));
    assert_eq!(of("#!/usr/bin/env -S deno run"), Some(TypeScript));
    for line in ["#!/bin/sh", "# python", "#!", "", "#!/usr/bin/env perl"] {
        assert_eq!(of(line), None, "{line}");
    }
    assert_eq!(Language::of_file(b"a.rs", b"#!/usr/bin/python\n"), Some(Rust));
    assert_eq!(Language::of_file(b"a.txt", b"#!/usr/bin/python"), Some(Python));
}

#[test]
fn decisions_of_rust() {
    assert_eq!(complexity(Rust, ""), 1);
    assert_eq!(complexity(Rust, "if a { } else if b { } else { }"), 3);
    assert_eq!(complexity(Rust, "while a { } for x in y { } loop { break; }"), 3);
    assert_eq!(complexity(Rust, "if let Some(x) = y && z || w { }"), 4);
    assert_eq!(complexity(Rust, "let Some(x) = y else { return };"), 2);
    // Four arms are three decisions; comments are no arms, and a guard is none of its own.
    assert_eq!(complexity(Rust, "match x { // one\n A => 1, /* two */ B if c => 2, C | D => 3, _ => 4 }"), 4);
    assert_eq!(complexity(Rust, "match x { A => 1 }"), 1);
    assert_eq!(complexity(Rust, "a()?.b()?; let x = &&y; let c = || 1;"), 3);
    // A closure is a part of the function that it stands in.
    assert_eq!(complexity(Rust, "x.map(|y| if y { 1 } else { 2 })"), 2);
    // In a macro there are only tokens.
    assert_eq!(
        complexity(
            Rust,
            "assert!(a && b || !c); vec![x?, if y { 1 } else { 2 }]; m!(|| 1, &&z, for<'a> F, T: ?Sized)"
        ),
        5
    );
}

#[test]
fn functions_of_rust_have_the_names_of_what_they_stand_in() {
    let facts = counted(
        Rust,
        "fn a() { fn b() { if x { } } if y { } }\nimpl<T> S<T> { fn c(&self) {} }\nmod m { trait T { fn d(&self) { } fn e(); } }\nconst X: u8 = if y { 1 } else { 2 };",
    );
    assert_eq!(functions(&facts), [("(file)", 1), ("a", 2), ("a.b", 2), ("S.c", 1), ("m.T.d", 1)]);
    assert_eq!(facts.complexity(), 7);
}

#[test]
fn public_names_of_rust() {
    let facts = counted(
        Rust,
        "pub fn a() { pub fn hidden() {} }
pub(crate) fn b() {}
pub(super) struct C { pub x: u8 }
pub struct D { pub x: u8, y: u8 }
pub struct E(pub u8, u8, pub u16);
pub enum F { G, H { z: u8 } }
pub trait I { const J: u8; type K; fn l(); fn m() {} }
trait N { fn o(); }
impl D { pub fn p() {} fn q() {} pub(crate) fn r() {} pub const S: u8 = 1; }
impl I for D { fn l() {} }
pub use a::{b, c::{d as e, self}, f::*};
pub mod t { pub static U: u8 = 1; pub type V = u8; fn w() {} }
#[macro_export]
macro_rules! x { () => {} }
macro_rules! y { () => {} }
#[cfg(test)]
mod tests { pub fn z() {} }",
    );
    let expected = [
        "fn a",
        "struct D",
        "field D.x",
        "struct E",
        "field E.0",
        "field E.2",
        "enum F",
        "variant F.G",
        "variant F.H",
        "trait I",
        "const I.J",
        "type I.K",
        "fn I.l",
        "fn I.m",
        "fn D.p",
        "const D.S",
        "use b",
        "use e",
        "use self",
        "use f::*",
        "mod t",
        "static t.U",
        "type t.V",
        "macro x",
    ];
    assert_eq!(names(&facts), expected);
}

#[test]
fn signatures_leave_out_bodies_and_values() {
    let facts = counted(
        Rust,
        "pub fn a<T>(\n  x: T,\n) -> u8\nwhere T: B { 1 }\npub const C: u8 = 2;\npub struct D { pub e: u8 }",
    );
    let signatures: Vec<_> = facts.interfaces.iter().map(|one| one.signature.as_str()).collect();
    assert_eq!(
        signatures,
        ["pub fn a<T>( x: T, ) -> u8 where T: B", "pub const C: u8", "pub struct D", "pub e: u8"]
    );
    let facts = counted(Python, "def a(x, y=1) -> int:\n    return 1\nB: int = 2\n");
    let signatures: Vec<_> = facts.interfaces.iter().map(|one| one.signature.as_str()).collect();
    assert_eq!(signatures, ["def a(x, y=1) -> int:", "int"]);
}

#[test]
fn fallbacks_of_rust() {
    assert_eq!(kinds(Rust, "match x { A => 1, _ => 2 }"), [CatchAll]);
    assert_eq!(kinds(Rust, "match x { A => 1, other => 2 }"), [CatchAll]);
    assert_eq!(kinds(Rust, "match x { A => 1, B | _ => 2 }"), [CatchAll]);
    assert_eq!(kinds(Rust, "match x { (A, B) => 1, (_, _) => 2 }"), [CatchAll]);
    assert_eq!(kinds(Rust, "match x { A => 1, _ if y => 2, (A, _) => 3, NONE => 4, Some(_) => 5 }"), []);
    assert_eq!(kinds(Rust, "match x { Ok(y) => y, Err(_) => 2 }"), [DiscardedError]);
    assert_eq!(kinds(Rust, "match x { Ok(y) => y, Err(e) => f(e) }"), []);
    // What fails loudly is no fallback.
    assert_eq!(kinds(Rust, "match x { A => 1, _ => unreachable!() }"), []);
    assert_eq!(kinds(Rust, "match x { A => 1, _ => return Err(y) }"), []);
    assert_eq!(kinds(Rust, "match x { A => 1, _ => { log(); panic!(\"{x}\") } }"), []);
    assert_eq!(
        kinds(Rust, "a.unwrap_or(1); a.unwrap_or_default(); a.unwrap_or_else(|| 2); a.map_or(1, f);"),
        [DefaultValue; 4]
    );
    assert_eq!(
        kinds(Rust, "a.unwrap_or::<u8>(1); a.or(b); a.or_else(|| c); a.map_or_else(f, g);"),
        [DefaultValue; 4]
    );
    assert_eq!(
        kinds(Rust, "a.unwrap_or_else(|e| panic!(\"{e}\")); a.unwrap(); a.expect(\"b\"); a?; a.ok_or(b);"),
        []
    );
    assert_eq!(kinds(Rust, "a.ok(); let _ = f(); _ = g(); let _ = write!(x);"), [DiscardedError; 4]);
    assert_eq!(kinds(Rust, "let _ = f()?; let _x = g(); let _ = x;"), []);
    assert_eq!(
        kinds(Rust, "x.map(Result::ok).map(Option::unwrap_or_default)"),
        [DiscardedError, DefaultValue]
    );
    assert_eq!(
        kinds(Rust, "m!(a.unwrap_or(1), b.ok(), match c { D => 1, _ => 2 })"),
        [DefaultValue, DiscardedError, CatchAll]
    );
    assert_eq!(kinds(Rust, "m!(match c { D => 1, _ => unreachable!() })"), []);
}

#[test]
fn decisions_of_python() {
    assert_eq!(complexity(Python, "pass"), 1);
    assert_eq!(complexity(Python, "if a:\n  pass\nelif b:\n  pass\nelse:\n  pass"), 3);
    assert_eq!(complexity(Python, "for x in y:\n  pass\nelse:\n  pass\nwhile z:\n  pass"), 3);
    assert_eq!(
        complexity(
            Python,
            "try:\n  pass\nexcept A:\n  pass\nexcept (B, C):\n  pass\nelse:\n  pass\nfinally:\n  pass"
        ),
        3
    );
    assert_eq!(complexity(Python, "return a and b or not c"), 3);
    assert_eq!(complexity(Python, "return 1 if a else 2"), 2);
    // Two loops and two conditions.
    assert_eq!(complexity(Python, "return [x for y in z if y for x in y if x]"), 5);
    assert_eq!(complexity(Python, "assert a\nwith b:\n  pass\nreturn lambda: 1 if c else 2"), 2);
    // Two cases that look, one of them with a guard, and one that takes the rest.
    assert_eq!(
        complexity(
            Python,
            "match a:\n  case 1 | 2:\n    pass\n  case b if c:\n    pass\n  case _:\n    pass"
        ),
        4
    );
    let facts = counted(Python, "if a:\n  pass\nclass C:\n  def m(self):\n    def n():\n      if b: pass\n");
    assert_eq!(functions(&facts), [("(file)", 1), ("C.m", 1), ("C.m.n", 2)]);
}

#[test]
fn public_names_of_python() {
    let source = "
import os
A, _b = 1, 2
C: int = 3
try:
    D = 1
except E:
    D = 2
def f(): x = 1
def _g(): pass
async def h(): pass
class I(J):
    k = 1
    _l = 2
    def m(self): self.n = 1
    def __init__(self): pass
    class O:
        def p(self): pass
class _Q:
    def r(self): pass
";
    let facts = counted(Python, source);
    let expected = [
        "name A",
        "name C",
        "name D",
        "name D",
        "function f",
        "function h",
        "class I",
        "name I.k",
        "method I.m",
        "class I.O",
        "method I.O.p",
    ];
    assert_eq!(names(&facts), expected);
    assert_eq!(facts.named().len(), 10, "one name that is given twice is one");
    // With a list, exactly what it has, and the members of its classes.
    let listed = format!("__all__ = ['f', \"os\"]\n__all__ += ['_Q']\n{source}");
    assert_eq!(names(&counted(Python, &listed)), ["function f", "class _Q", "method _Q.r", "name os"]);
    for private in ["a/_b.py", "_a/b.py", "test_a.py", "a/b_test.py", "conftest.py"] {
        assert!(counted_at(Python, private, source).interfaces.is_empty(), "{private}");
    }
    assert!(!counted_at(Python, "a/__init__.py", source).interfaces.is_empty());
}

#[test]
fn fallbacks_of_python() {
    assert_eq!(kinds(Python, "try:\n  a()\nexcept:\n  pass"), [BroadHandler]);
    assert_eq!(kinds(Python, "try:\n  a()\nexcept Exception as e:\n  log(e)"), [BroadHandler]);
    assert_eq!(kinds(Python, "try:\n  a()\nexcept (B, BaseException):\n  pass"), [BroadHandler]);
    assert_eq!(kinds(Python, "try:\n  a()\nexcept* Exception:\n  pass"), [BroadHandler]);
    assert_eq!(kinds(Python, "try:\n  a()\nexcept ValueError:\n  pass\nexcept (B, C) as e:\n  pass"), []);
    assert_eq!(kinds(Python, "try:\n  a()\nexcept Exception:\n  log()\n  raise"), []);
    assert_eq!(kinds(Python, "match a:\n  case 1:\n    pass\n  case _:\n    pass"), [CatchAll]);
    assert_eq!(kinds(Python, "match a:\n  case b.C:\n    pass\n  case d:\n    pass"), [CatchAll]);
    assert_eq!(kinds(Python, "match a:\n  case _ if b:\n    pass\n  case _:\n    raise C"), []);
    assert_eq!(
        kinds(Python, "a.get(b, 1); a.pop(b, None); getattr(a, 'b', None); next(a, 0); os.getenv('A', '')"),
        [DefaultValue; 5]
    );
    assert_eq!(
        kinds(Python, "a.get(b); get(a, b); a.get(b, timeout=1); getattr(a, 'b'); next(a); a.pop(0)"),
        []
    );
    assert_eq!(kinds(Python, "x = a or []; y = b or 'c'; z = c or None"), [DefaultValue; 3]);
    assert_eq!(kinds(Python, "x = a or b; y = a and []"), []);
    assert_eq!(
        kinds(Python, "with suppress(Exception):\n  a()\nwith contextlib.suppress(B):\n  a()"),
        [BroadHandler]
    );
}

#[test]
fn decisions_of_javascript_and_typescript() {
    for language in [JavaScript, TypeScript] {
        assert_eq!(complexity(language, ""), 1);
        assert_eq!(complexity(language, "if (a) {} else if (b) {} else {}"), 3);
        assert_eq!(
            complexity(
                language,
                "for (;;) {} for (const a of b) {} for (const a in b) {} while (c) {} do {} while (d)"
            ),
            6
        );
        assert_eq!(complexity(language, "switch (a) { case 1: case 2: break; default: }"), 3);
        assert_eq!(complexity(language, "try {} catch (e) {} finally {}"), 2);
        assert_eq!(complexity(language, "return a && b || c ?? (d ? 1 : 2)"), 5);
        assert_eq!(complexity(language, "a ||= 1; b &&= 2; c ??= 3; d?.e"), 4);
        // What has no name belongs to the function that it stands in.
        assert_eq!(complexity(language, "a.map(b => b ? 1 : 2); c(function () { if (d) {} })"), 3);
    }
    let facts = counted(
        TypeScript,
        "const a = () => b ? 1 : 2; class C { m() { if (a) {} } static n = () => 1; get o() { return 1 } }
         const p = { q() {}, r: function () { } }; exports.s = () => { };
         export default () => { if (a) { } };",
    );
    let expected =
        [("a", 2), ("C.m", 2), ("C.n", 1), ("C.o", 1), ("q", 1), ("r", 1), ("exports.s", 1), ("default", 2)];
    assert_eq!(functions(&facts), expected);
}

#[test]
fn public_names_of_typescript() {
    let facts = counted(
        TypeScript,
        "export function a(x: number): void {}
export default class B extends C { private d = 1; protected e() {} public f(): void {} #g = 1; static h = 2; constructor(i: number) {} }
function j() {}
class K { l() {} }
export { j, K as M };
export * from 'n'; export * as o from 'p'; export { q } from 'r';
export const { s, t: [u] } = v, w = 1;
export interface X { y: string; z(): void }
export enum AA { BB, CC = 2 }
export type DD = string;
export namespace EE { export const ff = 1; const gg = 2 }
export abstract class HH { abstract ii(): void }
export declare function jj(): void;
const kk = 1;",
    );
    let expected = [
        "function a",
        "class default",
        "method default.f",
        "field default.h",
        "method default.constructor",
        "function j",
        "class M",
        "method M.l",
        "export * from n",
        "export o",
        "export q",
        "variable s",
        "variable u",
        "variable w",
        "interface X",
        "field X.y",
        "method X.z",
        "enum AA",
        "variant AA.BB",
        "variant AA.CC",
        "type DD",
        "namespace EE",
        "variable EE.ff",
        "class HH",
        "method HH.ii",
        "function jj",
    ];
    assert_eq!(names(&facts), expected);
    assert!(counted_at(TypeScript, "a.test.ts", "export const a = 1").interfaces.is_empty());
}

#[test]
fn public_names_of_commonjs() {
    let facts = counted(
        JavaScript,
        "class A { b() {} }
function c(x) {}
module.exports = { A, c, d: 1, 'e': () => 2, f() {}, ...g };
module.exports.h = 3;
exports.i = function (y) {};
other.exports2 = 4;",
    );
    let expected = [
        "class A",
        "method A.b",
        "function c",
        "variable d",
        "function e",
        "function f",
        "export ...g",
        "variable h",
        "function i",
    ];
    assert_eq!(names(&facts), expected);
    assert_eq!(names(&counted(JavaScript, "module.exports = function (a) {}")), ["function module.exports"]);
}

#[test]
fn fallbacks_of_javascript_and_typescript() {
    for language in [JavaScript, TypeScript] {
        assert_eq!(kinds(language, "switch (a) { case 1: break; default: b() }"), [CatchAll]);
        assert_eq!(kinds(language, "switch (a) { default: b(); throw c }"), []);
        assert_eq!(kinds(language, "try { a() } catch (e) { } try { a() } catch { b() }"), [BroadHandler; 2]);
        assert_eq!(kinds(language, "try { a() } catch (e) { b(e); throw e }"), []);
        assert_eq!(kinds(language, "a.catch(() => null); a.catch(e => { throw e })"), [BroadHandler]);
        assert_eq!(kinds(language, "a ?? b; a ??= b; a || []; a || 'b'; a ||= 0"), [DefaultValue; 5]);
        assert_eq!(kinds(language, "a || b; a && []; a?.b"), []);
    }
}

#[test]
fn decisions_of_go() {
    assert_eq!(complexity(Go, ""), 1);
    assert_eq!(complexity(Go, "if a { } else if b { } else { }"), 3);
    assert_eq!(complexity(Go, "for { }\nfor i := 0; i < 3; i++ { }\nfor range x { }"), 4);
    assert_eq!(complexity(Go, "switch a { case 1, 2: case 3: default: }"), 3);
    assert_eq!(complexity(Go, "switch a.(type) { case int: default: }\nselect { case <-b: default: }"), 3);
    assert_eq!(complexity(Go, "x := a && b || c\ng := func() { if d { } }"), 4);
    let facts = counted(Go, "package p\nfunc (s *S[T]) M() { }\nfunc (S) N() { }\nfunc O[T any]() { }\n");
    assert_eq!(functions(&facts), [("S.M", 1), ("S.N", 1), ("O", 1)]);
}

#[test]
fn public_names_of_go() {
    let source = "package p
func A[T any](x int) error { type Hidden struct{}; return nil }
func b() {}
type C struct { D, e int; F; *g.H }
type i struct { J int }
type K interface { L(x int) error; m() }
type N = int
const (
	O, p = 1, 2
)
var Q, _ = 1, 2
func (c *C) R() {}
func (c C) s() {}
func (i) T() {}
";
    let facts = counted(Go, source);
    let expected = [
        "func A",
        "type C",
        "field C.D",
        "field C.F",
        "field C.H",
        "type K",
        "method K.L",
        "type N",
        "const O",
        "var Q",
        "method C.R",
    ];
    assert_eq!(names(&facts), expected);
    assert!(counted_at(Go, "a/b_test.go", source).interfaces.is_empty());
}

#[test]
fn fallbacks_of_go() {
    assert_eq!(kinds(Go, "switch a { case 1: default: b() }"), [CatchAll]);
    assert_eq!(kinds(Go, "switch a.(type) { default: b() }"), [CatchAll]);
    assert_eq!(kinds(Go, "select { case <-a: default: }"), []);
    assert_eq!(
        kinds(
            Go,
            "switch a { default: panic(1) }\nswitch a { default: return nil, fmt.Errorf(\"b\") }\nswitch a { default: return err }"
        ),
        []
    );
    assert_eq!(kinds(Go, "defer func() { recover() }()"), [BroadHandler]);
    assert_eq!(kinds(Go, "_ = a()\nb, _ := c()\n_, _ = d()"), [DiscardedError; 3]);
    assert_eq!(kinds(Go, "a, _ := b[c]\nd, _ := e.(F)\ng := cmp.Or(h, 1)"), [DefaultValue; 3]);
    assert_eq!(kinds(Go, "_ = a\nfor _, b := range c { }\n_, d := e()\nf, _ := g, h()"), []);
}

#[test]
fn fallbacks_have_a_place_and_a_first_line() {
    let facts = counted(Rust, "impl A {\n  fn b() {\n    c.unwrap_or(\n      1,\n    );\n  }\n}\n");
    assert_eq!(fallbacks(&facts), [(3, DefaultValue, "A.b")]);
    assert_eq!(facts.fallbacks[0].text, "c.unwrap_or(…");
}

#[test]
fn what_is_nested_for_ever_is_counted_without_a_crash() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(8_000), close.repeat(8_000));
    for (language, source) in [
        (Rust, deep("(", ")")),
        (Rust, format!("fn f() {{ {} }}", deep("{", "}"))),
        (Rust, format!("fn f() {{ m!{{ {} }} }}", deep("[", "]"))),
        (Rust, deep("mod a {", "}")),
        (Python, deep("[", "]")),
        (Python, format!("x = {}", "not ".repeat(8_000))),
        (JavaScript, deep("(() => {", "})()")),
        (TypeScript, deep("{ a: ", "}")),
        (Go, format!("package p\nvar x = {}", deep("f(", ")"))),
        (Go, format!("package p\ntype A {}", deep("struct { B ", "}"))),
    ] {
        // Numbers of such are worth nothing; that there are any, or that it is said that there are none, is.
        let _ = facts(language, b"a", source.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for language in ALL {
            let _ = facts(language, b"a/b.c", &bytes);
        }
    }

    #[test]
    fn no_words_are_too_strange(words in proptest::collection::vec(prop_oneof![
        Just("match"), Just("_"), Just("=>"), Just("{"), Just("}"), Just("("), Just(")"), Just("pub"), Just("use"), Just("fn"),
        Just("def"), Just("\n"), Just("    "), Just(":"), Just("class"), Just("except"), Just("case"), Just("export"), Just("default"),
        Just("function"), Just("func"), Just("type"), Just("struct"), Just("switch"), Just("||"), Just("a"), Just("B"), Just(","),
        Just("="), Just("."), Just("unwrap_or"), Just("!"), Just("#[test]"), Just("'"), Just("\""), Just("`${"), Just("__all__"),
    ], 0..60)) {
        let source = words.join(" ");
        for language in ALL {
            let one = facts(language, b"a/b.c", source.as_bytes());
            prop_assert_eq!(one, facts(language, b"a/b.c", source.as_bytes()));
        }
    }
}
