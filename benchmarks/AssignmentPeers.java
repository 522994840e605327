import java.util.*;

import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.*;

/**
 * Kafka Streams' assignors on one group: `assignor tasks standbys stateful clients threads rounds`.
 *
 * A first assignment, then the first client leaves, then it is back without state; each until nothing
 * moves. Prints `ROUND <step> <ns>` and after it a line `<client> A|S <task> …` for each client.
 */
public final class AssignmentPeers {
    private static final long FAR_BEHIND = 1_000_000_000L;

    public static void main(String[] arguments) {
        int tasks = Integer.parseInt(arguments[1]);
        int standbys = Integer.parseInt(arguments[2]);
        int stateful = Integer.parseInt(arguments[3]);
        int clients = Integer.parseInt(arguments[4]);
        int threads = Integer.parseInt(arguments[5]);
        int rounds = Integer.parseInt(arguments[6]);
        Set<TaskId> all = new TreeSet<>();
        Set<TaskId> withState = new TreeSet<>();
        for (int task = 0; task < tasks; task++) {
            all.add(new TaskId(0, task));
            if (task < stateful) withState.add(new TaskId(0, task));
        }
        // As many warm-ups at once as are wanted: the fewest rounds.
        AssignmentConfigs configs =
            new AssignmentConfigs(10_000L, Integer.MAX_VALUE / 2, standbys, 60_000L, List.of());
        Map<ProcessId, ClientState> group = new TreeMap<>();
        for (int client = 0; client < clients; client++) group.put(id(client), null);
        for (String step : List.of("first", "leave", "join")) {
            if (step.equals("leave")) group.remove(id(0));
            if (step.equals("join")) group.put(id(0), null);
            for (int round = 0; round < rounds; round++) {
                group.replaceAll((id, before) -> next(id, before, threads));
                LegacyTaskAssignor assignor = arguments[0].equals("sticky")
                    ? new LegacyStickyTaskAssignor() : new HighAvailabilityTaskAssignor();
                RackAwareTaskAssignor racks = new RackAwareTaskAssignor(
                    Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.of(), null, configs, Time.SYSTEM);
                long began = System.nanoTime();
                boolean again = assignor.assign(group, all, withState, racks, configs);
                print(step, System.nanoTime() - began, group);
                if (!again) break;
            }
        }
    }

    private static ProcessId id(int client) {
        return new ProcessId(new UUID(0, client));
    }

    /** A client as it reports itself in the next rebalance: what it has is restored. */
    private static ClientState next(ProcessId id, ClientState before, int threads) {
        Set<TaskId> actives = before == null ? Set.of() : before.activeTasks();
        Set<TaskId> standbys = before == null ? Set.of() : before.standbyTasks();
        Map<TaskId, Long> lags = new HashMap<>() {
            @Override
            public Long get(Object task) {
                return getOrDefault(task, FAR_BEHIND);
            }
        };
        for (TaskId task : actives) lags.put(task, -2L); // Task.LATEST_OFFSET
        for (TaskId task : standbys) lags.put(task, 0L);
        return new ClientState(actives, standbys, lags, Map.of(), threads, id);
    }

    private static void print(String step, long ns, Map<ProcessId, ClientState> group) {
        StringBuilder out = new StringBuilder("ROUND " + step + " " + ns + "\n");
        group.forEach((id, state) -> {
            line(out, id, "A", state.activeTasks());
            line(out, id, "S", state.standbyTasks());
        });
        System.out.print(out);
    }

    private static void line(StringBuilder out, ProcessId id, String mode, Set<TaskId> tasks) {
        out.append(id.id().getLeastSignificantBits()).append(' ').append(mode);
        for (TaskId task : tasks) out.append(' ').append(task.partition());
        out.append('\n');
    }
}
