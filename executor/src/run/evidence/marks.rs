//! What is noted of a run at each phase and fault: how far the logs have got, what the files of `[[epoch]]` say.
//!
//! Asked by the loop; read when the run is collected. It reads files of nodes and judges nothing.

use crate::run::drive::Drive;
use warren_model::Observation;

impl Drive<'_, '_> {
    /// Notes how far the logs have got: a log need not tell the time, and lines of two processes of one node stand in one file.
    pub fn mark_logs(&mut self, at: warren_model::LogMoment) {
        let files = &self.cluster.prepared.target().logs;
        let size = |path: std::path::PathBuf| path.metadata().map_or(0, |m| m.len());
        let sizes = self
            .cluster
            .nodes
            .iter()
            .map(|n| files.iter().map(|f| size(n.dir.join(f))).collect())
            .collect();
        self.so_far.log_sizes.push((at, self.now(), sizes));
    }

    /// Reads the files of `[[epoch]]` on every node; one that is not there says nothing.
    pub fn sample_epochs(&mut self) {
        for file in &self.cluster.prepared.target().epochs {
            for node in &self.cluster.nodes {
                let Ok(text) = std::fs::read_to_string(node.dir.join(&file.file)) else {
                    continue;
                };
                if let Ok(value) = text.trim().parse::<i64>() {
                    self.so_far.epochs.push(Observation::Epoch {
                        node: node.name.clone(),
                        name: file.name.clone(),
                        value,
                        t_ns: self.now(),
                    });
                }
            }
        }
    }
}
