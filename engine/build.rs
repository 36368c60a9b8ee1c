//! Lets the installed binary find `libduckdb.so` beside it, in `../lib`.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/../lib");
    println!("cargo:rerun-if-changed=build.rs");
}
