//! The committed code is what the `.proto` file says. `BLESS=1 cargo test -p auxo-proto` writes it anew.

use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::FileDescriptorSet;
use protox::Compiler;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// With comments for the code, without for those who ask the server.
fn compiled(comments: bool) -> FileDescriptorSet {
    let mut compiler = Compiler::new([root().join("proto")]).expect("a folder");
    compiler.include_source_info(comments);
    compiler.include_imports(true);
    compiler
        .open_file("auxo/v1/auxo.proto")
        .expect("the file can be compiled");
    compiler.file_descriptor_set()
}

fn code() -> String {
    let out = tempfile::tempdir().expect("a folder");
    tonic_prost_build::configure()
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .bytes(".")
        .btree_map(".")
        .out_dir(out.path())
        .compile_fds(compiled(true))
        .expect("code is made");
    std::fs::read_to_string(out.path().join("auxo.v1.rs")).expect("the code")
}

fn same(file: &Path, made: &[u8]) {
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(file, made).expect("the file is written");
    }
    let there = std::fs::read(file).expect("the file is there");
    assert!(
        there == made,
        "{} is not what the .proto file says: BLESS=1 cargo test -p auxo-proto",
        file.display()
    );
}

#[test]
fn the_code_is_what_the_file_says() {
    let generated = root().join("src/generated");
    same(&generated.join("auxo.v1.rs"), code().as_bytes());
    let descriptor = compiled(false).encode_to_vec();
    same(&generated.join("auxo.v1.bin"), &descriptor);
}

#[test]
fn every_service_and_method_says_what_it_is_for() {
    let set = compiled(true);
    let file = set.file.first().expect("one file");
    let info = file.source_code_info.as_ref().expect("comments");
    let said = |path: &[i32]| {
        let place = info.location.iter().find(|place| place.path == path);
        place.is_some_and(|place| place.leading_comments.is_some())
    };
    // The numbers are those of descriptor.proto: 6 is a service, 2 one of its methods.
    for (s, service) in (0..).zip(&file.service) {
        assert!(said(&[6, s]), "{}", service.name());
        for (m, method) in (0..).zip(&service.method) {
            assert!(said(&[6, s, 2, m]), "{}.{}", service.name(), method.name());
        }
    }
}
