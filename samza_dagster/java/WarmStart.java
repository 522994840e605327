package samza_dagster;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

/**
 * Runs a container's main class, and beside it, on a thread of its own, what every container does
 * first: logs in, makes Kafka's clients, opens a RocksDB store.
 *
 * <p>A process that is parked at its JobModel has nothing to do and is cold: classes that were used
 * once, and code that was compiled, are ready when its JobModel comes. It asks for that, by which it
 * says that it is ready, once all this is done: who waits for it may end a container. Nothing here
 * connects to a broker, knows the job, or touches its stores; what fails is left out. Samza is as
 * released.
 *
 * <p>Arguments: the main class, then its own.
 */
public final class WarmStart {
  private static final String NOWHERE = "127.0.0.1:1";
  private static final String PARKED = "SAMZA_DAGSTER_PARKED";
  private static final long LONGEST_MS = 5_000;
  private static final int LOGINS = 6;
  private static final int SCRAM_ITERATIONS = 4096;

  private interface Step {
    void run() throws Exception;
  }

  private WarmStart() {}

  public static void main(String[] args) throws Exception {
    Thread thread = new Thread(WarmStart::warm, "warm-start");
    thread.setDaemon(true);
    thread.start();
    if (System.getenv(PARKED) != null) {
      thread.join(LONGEST_MS);
    }
    String[] rest = new String[args.length - 1];
    System.arraycopy(args, 1, rest, 0, rest.length);
    Class.forName(args[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
  }

  private static void warm() {
    attempt(WarmStart::logIn);
    attempt(WarmStart::consume);
    attempt(WarmStart::produce);
    attempt(WarmStart::administer);
    attempt(WarmStart::openStore);
  }

  private static void attempt(Step step) {
    try {
      step.run();
    } catch (Exception | LinkageError e) {
      // Another version of a library, or none: the container starts a little colder.
    }
  }

  private static void logIn() throws Exception {
    ScramFormatter formatter = new ScramFormatter(ScramMechanism.SCRAM_SHA_256);
    for (int i = 0; i < LOGINS; i++) {
      formatter.hi(new byte[] {1}, new byte[] {2}, SCRAM_ITERATIONS);
    }
  }

  private static void consume() {
    TopicPartition partition = new TopicPartition("warm-start", 0);
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config())) {
      consumer.assign(List.of(partition));
      consumer.seek(partition, 0);
      consumer.poll(Duration.ofMillis(50));
    }
  }

  private static void produce() {
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config());
    try {
      producer.send(new ProducerRecord<>("warm-start", new byte[1]));
    } finally {
      producer.close(Duration.ZERO);
    }
  }

  private static void administer() {
    AdminClient admin = AdminClient.create(config());
    admin.listTopics();
    admin.close(Duration.ZERO);
  }

  private static void openStore() throws Exception {
    RocksDB.loadLibrary();
    Path directory = Files.createTempDirectory("warm-start");
    try (Options options = new Options().setCreateIfMissing(true)) {
      try (RocksDB store = RocksDB.open(options, directory.toString())) {
        store.put(new byte[] {1}, new byte[] {2});
        store.get(new byte[] {1});
      }
    } finally {
      try (var files = Files.list(directory)) {
        for (Path file : files.toArray(Path[]::new)) {
          Files.delete(file);
        }
      }
      Files.delete(directory);
    }
  }

  private static Map<String, Object> config() {
    String coder = "org.apache.kafka.common.serialization.ByteArray";
    String login = "org.apache.kafka.common.security.scram.ScramLoginModule required";
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", NOWHERE);
    config.put("client.id", "warm-start");
    config.put("group.id", "warm-start");
    config.put("security.protocol", "SASL_PLAINTEXT");
    config.put("sasl.mechanism", "SCRAM-SHA-256");
    config.put("sasl.jaas.config", login + " username=\"warm\" password=\"start\";");
    config.put("acks", "all");
    config.put("enable.idempotence", "true");
    config.put("max.block.ms", "100");
    config.put("request.timeout.ms", "300");
    config.put("delivery.timeout.ms", "400");
    config.put("default.api.timeout.ms", "300");
    config.put("key.serializer", coder + "Serializer");
    config.put("value.serializer", coder + "Serializer");
    config.put("key.deserializer", coder + "Deserializer");
    config.put("value.deserializer", coder + "Deserializer");
    return config;
  }
}
