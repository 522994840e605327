"""Virtual hosts, cluster, metastore, network and clocks around the heart that runs in production."""
