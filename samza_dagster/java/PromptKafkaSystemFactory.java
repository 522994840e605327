package samza_dagster;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.samza.config.Config;
import org.apache.samza.config.KafkaConsumerConfig;
import org.apache.samza.metrics.MetricsRegistry;
import org.apache.samza.system.SystemConsumer;
import org.apache.samza.system.kafka.KafkaConsumerProxy;
import org.apache.samza.system.kafka.KafkaSystemConsumer;
import org.apache.samza.system.kafka.KafkaSystemConsumerMetrics;
import org.apache.samza.system.kafka.KafkaSystemFactory;
import org.apache.samza.util.SystemClock;

/**
 * Samza's Kafka system, whose consumers stop at once: {@code systems.<name>.samza.factory}.
 *
 * <p>A consumer of Samza's stops when its thread comes back from a poll, which waits for half a
 * second where no records are. A container stops one that has read the checkpoints and one that has
 * restored its stores before it works, and that of its inputs as it ends. Here no poll waits longer
 * than {@link #POLL_MS}; all else is Samza's.
 */
public final class PromptKafkaSystemFactory extends KafkaSystemFactory {
  private static final long POLL_MS = 50;

  @Override
  public SystemConsumer getConsumer(String system, Config config, MetricsRegistry registry) {
    String clientId = KafkaConsumerConfig.createClientId(CLIENTID_CONSUMER_PREFIX(), config);
    KafkaConsumer<byte[], byte[]> consumer =
        new PromptConsumer(
            KafkaConsumerConfig.getKafkaSystemConsumerConfig(config, system, clientId));
    KafkaSystemConsumerMetrics metrics = new KafkaSystemConsumerMetrics(system, registry);
    return new KafkaSystemConsumer<>(
        consumer,
        system,
        config,
        clientId,
        new KafkaConsumerProxy.BaseFactory<>(consumer, system, clientId, metrics),
        metrics,
        SystemClock.instance());
  }

  private static final class PromptConsumer extends KafkaConsumer<byte[], byte[]> {
    PromptConsumer(Map<String, Object> config) {
      super(config);
    }

    @Override
    @Deprecated // and what Samza calls
    public ConsumerRecords<byte[], byte[]> poll(long timeoutMs) {
      return super.poll(Math.min(timeoutMs, POLL_MS));
    }
  }
}
