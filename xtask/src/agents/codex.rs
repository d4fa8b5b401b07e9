//! A real `codex app-server` behind a gateway, with the scripted models of another gateway as its model.

use std::fs;
use std::path::{Path, PathBuf};

use crate::check::{Outcome, is_there, told};
use crate::clients::{install_python, play_all, unreachable};
use crate::serving::Serving;
use crate::{root, target};

/// The seconds for which turns are run while memory is watched.
const SOAK: &str = "60";

/// Has the official clients run tool loops. Codex was installed with the other agents.
pub(super) fn run(agents: &Path) -> Result<Outcome, String> {
    if !cfg!(target_os = "linux") {
        return Ok(Outcome::Skipped("Codex as a model is watched by means of Linux".into()));
    }
    if !is_there("python3") {
        return Ok(Outcome::Skipped("there is no python3 for the clients of Codex as a model".into()));
    }
    let clients = target().join("clients");
    let python = match install_python(&clients, &root().join("clients/requirements.txt"), &[]) {
        Ok(python) => python,
        Err(why) => return unreachable(why),
    };
    let place = agents.join("work/codex-app-server");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(told(&place))?;
    let (models, requests) = (place.join("models.toml"), place.join("requests"));
    // Models that Codex knows are played by a scripted one, too.
    let known = "[[models]]\nname = \"gpt-*\"\nupstream = \"demo\"\nmodel = \"openai-responses\"\n";
    let text = format!("demo = true\nrecord = '{}'\n{known}", requests.display());
    fs::write(&models, text).map_err(told(&models))?;
    let options = ["--config".as_ref(), models.as_os_str()];
    let models = Serving::start_with(&place.join("models.log"), &options)?;
    let config = place.join("gateway.toml");
    let program = program(agents).ok_or("the program of Codex is not where its package puts it")?;
    fs::write(&config, upstreams(&program, &models, &place)).map_err(told(&config))?;
    let options = ["--config".as_ref(), config.as_os_str()];
    let gateway = Serving::start_with(&place.join("gateway.log"), &options)?;
    let url = format!("http://{}", gateway.address);
    let words = [
        root().join("clients/codex.py").into(),
        url.into(),
        gateway.id().to_string().into(),
        requests.into(),
        SOAK.into(),
    ];
    play_all(&[(python, words.into())])?;
    Ok(Outcome::Passed)
}

/// Two upstreams: one ends at the first call, as is usual; the other collects parallel calls.
fn upstreams(program: &Path, models: &Serving, place: &Path) -> String {
    let provider = format!(
        "{{name=\"models\",base_url=\"http://{}/v1\",wire_api=\"responses\",request_max_retries=0,stream_max_retries=0}}",
        models.address
    );
    let upstream = |name: &str, more: &str| {
        format!(
            "[upstreams.{name}]\nprotocol = \"codex-app-server\"\nretries = 0\n{more}\n\
             command = ['{}', 'app-server', '-c', 'model_provider=\"models\"', '-c', 'model_providers.models={provider}']\n\
             codex_home = '{}'\n",
            program.display(),
            place.join(name).display()
        )
    };
    upstream("codex", "") + &upstream("codex-all", "stop_after_tools_mode = \"all\"")
}

/// The program itself, which its package's script would start.
fn program(agents: &Path) -> Option<PathBuf> {
    let packages = fs::read_dir(agents.join("node_modules/@openai")).ok()?;
    let vendored = packages.flatten().filter_map(|package| fs::read_dir(package.path().join("vendor")).ok());
    vendored
        .flatten()
        .flatten()
        .map(|vendor| vendor.path().join("bin/codex"))
        .find(|program| program.is_file())
}
