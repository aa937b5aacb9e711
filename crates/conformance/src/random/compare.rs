//! Whether engine and model hold the same.

use auxo_core::engine::{Filter, Query, Which};
use auxo_core::{Job, JobId, QueueName};

use super::pair::{Pair, Verdict, failed};
use super::same::{same, same_job, shadow};

impl Pair {
    /// A lease call begins or ceases to wait a little after its caller did: it is looked for until it shows.
    pub(super) async fn compare_waiting(&self, queue: &QueueName) -> Verdict {
        let waiting = self.waiting(queue);
        match self.bench.sees_waiting(queue, waiting).await {
            true => Ok(()),
            false => Err(format!("never saw {waiting} lease calls wait for {queue}")),
        }
    }

    pub(super) async fn compare_queues(&mut self) -> Verdict {
        let mut engine = self.bench.engine.queues(None).await.map_err(failed)?;
        let mut model = self.model.queues(None, self.bench.now(), &mut self.mint);
        for info in &mut model {
            info.waiting = self.waiting(&info.name);
        }
        for (engine, model) in engine.iter_mut().zip(&model) {
            // An engine may remember who asked for a queue before there was one.
            engine.last_asked = model.last_asked.and(engine.last_asked);
        }
        match engine.len() == model.len() {
            true => engine
                .into_iter()
                .zip(model)
                .try_for_each(|(engine, model)| same("queue", engine, model)),
            false => same("queues", engine, model),
        }
    }

    /// The newest jobs, which a push may have changed.
    pub(super) async fn compare_jobs(&mut self) -> Verdict {
        let ids = self.model.job_ids();
        for id in ids.into_iter().rev().take(2) {
            self.compare_job(id).await?;
        }
        Ok(())
    }

    pub(super) async fn compare_job(&mut self, id: JobId) -> Verdict {
        self.compare_found(Which::Id(id)).await
    }

    pub(super) async fn compare_found(&mut self, which: Which) -> Verdict {
        let now = self.now();
        let what = format!("find {which:?}");
        let found = self.bench.engine.find(which.clone()).await;
        let engine = found.map_err(failed)?;
        let model = self.model.find(&which, now, &mut self.mint);
        match (engine, model) {
            (Some(engine), Some(model)) if self.model.is_shadow(model.id, now) => {
                same(&what, shadow(engine), shadow(model))
            }
            (Some(engine), Some(model)) => same_job(&what, engine, model),
            (engine, model) => same(&what, engine, model),
        }
    }

    pub(super) async fn compare_all(&mut self) -> Verdict {
        let engine = self.bench.engine.audit().await.map_err(failed)?;
        let model = self.model.audit(self.bench.now(), &mut self.mint);
        same("audit", &engine.problems, &Vec::new())?;
        same("audit", engine.queues, model.queues)?;
        same("audit", engine.forgotten, model.forgotten)?;
        let mut engine = self.bench.all(Filter::default(), 1000).await;
        let query = Query {
            limit: u32::MAX,
            ..Query::default()
        };
        let model = self.model.list(&query, self.bench.now(), &mut self.mint);
        let mut model = model.map_err(failed)?.jobs;
        engine.sort_by_key(|job| job.id);
        model.sort_by_key(|job| job.id);
        let ids = |jobs: &[Job]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
        same("list", ids(&engine), ids(&model))?;
        for (engine, model) in engine.into_iter().zip(model) {
            same_job("list", engine, model)?;
        }
        for id in self.model.job_ids() {
            self.compare_job(id).await?;
        }
        let engine = self.bench.engine.catalog().await.map_err(failed)?;
        let model = self.model.catalog(self.bench.now(), &mut self.mint);
        same("catalog", engine, model)
    }
}
