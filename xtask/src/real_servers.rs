//! Real servers with a tiny random model behind a running gateway, asked by the official clients.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::check::{Outcome, is_there, succeed, told};
use crate::clients::{install_python, play_all, unreachable};
use crate::serving::{Serving, free_address};
use crate::{root, target};

/// A part of `cargo xtask check --clients`: the clients that an earlier step has installed ask. The servers stay in
/// `target/clients/servers`. One of them is compiled when it is installed, which takes minutes; pip keeps the result for
/// other checkouts.
pub(crate) fn run() -> Result<Outcome, String> {
    let home = target().join("clients");
    let clients = home.join("bin/python");
    if !clients.exists() {
        return Ok(Outcome::Skipped("the clients for Python are not there".into()));
    }
    if !is_there("c++") {
        return Ok(Outcome::Skipped("there is no C++ compiler for llama-cpp-python".into()));
    }
    let python = match install_servers(&home.join("servers")) {
        Ok(python) => python,
        Err(why) => return unreachable(why),
    };
    let model = home.join("tiny.gguf");
    let script = |name: &str| root().join("clients/servers").join(name);
    succeed(Command::new(&python).arg(script("tiny_gguf.py")).arg(&model))?;

    let address = || free_address().map_err(|error| error.to_string());
    let mut command = Command::new(&python);
    let own = address()?;
    command.args(["-m", "llama_cpp.server", "--model_alias", "tiny", "--model"]).arg(&model);
    command.args(["--port", &own.port().to_string(), "--n_ctx", "0"]);
    // One thread, since threads that wait for each other on a busy machine take a hundred times as long; and a request
    // that comes ends no other.
    command.args(["--n_threads", "1", "--n_threads_batch", "1", "--interrupt_requests", "False"]);
    let llama_cpp_python = Serving::spawn(command, own, "/v1/models", &home.join("llama-cpp-python.log"))?;
    let mut command = Command::new(&python);
    let own = address()?;
    command.arg(script("llama_server.py")).arg(&model).arg(own.port().to_string());
    let llama_server = Serving::spawn(command, own, "/v1/models", &home.join("llama-server.log"))?;

    let config = home.join("real-servers.toml");
    let (one, two) = (llama_cpp_python.address, llama_server.address);
    let upstream = |name: &str, url: String, more: &str| {
        format!("[upstreams.{name}]\nbase_url = \"http://{url}\"\n{more}\n")
    };
    let chat = "protocol = \"openai-chat\"";
    let upstreams = [
        upstream("llama-cpp-python", format!("{one}/v1"), chat),
        upstream("llama-server", format!("{two}/v1"), chat),
        upstream("llama-server-responses", format!("{two}/v1"), "protocol = \"openai-responses\""),
        upstream("llama-server-messages", two.to_string(), "protocol = \"anthropic-messages\""),
    ];
    std::fs::write(&config, upstreams.concat()).map_err(told(&config))?;
    let options = ["--config".as_ref(), config.as_os_str()];
    let gateway = Serving::start_with(&home.join("real-servers.log"), &options)?;
    let words = [
        root().join("clients/real_servers.py").into(),
        format!("http://{}", gateway.address).into(),
        format!("http://{two}").into(),
    ];
    play_all(&[(clients, words.into())])?;
    Ok(Outcome::Passed)
}

/// The servers, and the Python that runs them. The compiled parts are small and for any processor, so that the build is
/// quick and may be kept.
fn install_servers(home: &Path) -> Result<PathBuf, String> {
    let arguments = "-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF";
    install_python(home, &root().join("clients/servers/requirements.txt"), &[("CMAKE_ARGS", arguments)])
}
