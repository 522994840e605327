"""Virtual hosts, cluster, metastore, network and clocks around the reducer that runs in production."""
