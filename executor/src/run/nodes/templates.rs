//! Configuration files from the templates in conf/ (docs/target-toml.md).

use crate::run::RunError;
use crate::target::{ConfigFile, NodeSpec, Target};
use minijinja::{Environment, UndefinedBehavior, context};
use std::net::Ipv4Addr;
use std::path::Path;

/// The text of one template for node `i`; a name without a value is an error.
pub(in crate::run) fn render(
    target: &Target,
    file: &ConfigFile,
    i: usize,
    specs: &[NodeSpec],
    addrs: &[Ipv4Addr],
    dir: &Path,
) -> Result<String, RunError> {
    let wrong = |why: String| RunError::Template {
        file: file.template.display().to_string(),
        why,
    };
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_keep_trailing_newline(true);
    let nodes: Vec<_> = specs
        .iter()
        .zip(addrs)
        .map(|(s, a)| {
            context! {
                name => s.name.as_str(),
                index => s.number,
                addr => a.to_string(),
                group => target.groups[s.group].name,
            }
        })
        .collect();
    let spec = &specs[i];
    env.render_str(
        &file.text,
        context! {
            node => context! {
                name => spec.name.as_str(),
                index => spec.number,
                addr => addrs[i].to_string(),
                dir => dir.display().to_string(),
                group => target.groups[spec.group].name,
            },
            nodes => nodes,
            clock => target.clock,
            options => target.workload.options,
        },
    )
    .map_err(|e| wrong(format!("{e:#}")))
}
