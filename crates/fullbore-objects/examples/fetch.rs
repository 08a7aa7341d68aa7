//! Fetches an object with `object_store` alone, by so many requests at a time: what `benchmarks/bench.py
//! --case objects` compares with. Prints bytes and seconds.
//!
//! `fetch ENDPOINT BUCKET KEY REQUESTS REQUEST_BYTES`

use std::error::Error;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, bucket, key, requests, bytes] = &given[..] else {
        return Err("fetch ENDPOINT BUCKET KEY REQUESTS REQUEST_BYTES".into());
    };
    let (requests, bytes): (usize, u64) = (requests.parse()?, bytes.parse()?);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = AmazonS3Builder::from_env()
        .with_endpoint(endpoint)
        .with_bucket_name(bucket)
        .with_allow_http(true)
        .build()?;
    runtime.block_on(async {
        let key = Path::from(key.as_str());
        let size = store.head(&key).await?.size;
        let begun = Instant::now();
        let starts = (0..size).step_by(bytes as usize);
        let fetches = starts.map(|start| {
            let (store, key) = (&store, &key);
            async move {
                let mut body = store
                    .get_opts(
                        key,
                        object_store::GetOptions {
                            range: Some((start..size.min(start + bytes)).into()),
                            ..Default::default()
                        },
                    )
                    .await?
                    .into_stream();
                let mut got = 0;
                while let Some(part) = body.next().await {
                    got += part?.len() as u64;
                }
                Ok::<_, object_store::Error>(got)
            }
        });
        let got: u64 = stream::iter(fetches)
            .buffered(requests)
            .try_fold(0, async |all, got| Ok(all + got))
            .await?;
        println!("{got} {:.6}", begun.elapsed().as_secs_f64());
        Ok(())
    })
}
