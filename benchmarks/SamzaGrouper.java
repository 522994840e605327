import java.util.*;

import org.apache.samza.Partition;
import org.apache.samza.container.TaskName;
import org.apache.samza.container.grouper.task.GroupByContainerIds;
import org.apache.samza.container.grouper.task.GrouperMetadataImpl;
import org.apache.samza.job.model.ContainerModel;
import org.apache.samza.job.model.TaskModel;
import org.apache.samza.runtime.LocationId;

/** Samza's GroupByContainerIds on one group: `tasks processors`; prints as `AssignmentPeers` does. */
public final class SamzaGrouper {
    public static void main(String[] arguments) {
        int processors = Integer.parseInt(arguments[1]);
        Set<TaskModel> tasks = new HashSet<>();
        for (int task = 0; task < Integer.parseInt(arguments[0]); task++) {
            tasks.add(new TaskModel(new TaskName("Partition " + task), new HashSet<>(), new Partition(task)));
        }
        Map<String, LocationId> group = new HashMap<>();
        for (int each = 0; each < processors; each++) group.put(String.valueOf(each), new LocationId("h" + each));
        Map<TaskName, LocationId> locality = new HashMap<>();
        for (String step : List.of("first", "leave", "join")) {
            if (step.equals("leave")) group.remove("0");
            if (step.equals("join")) group.put("0", new LocationId("h0"));
            long began = System.nanoTime();
            Set<ContainerModel> containers = new GroupByContainerIds(processors)
                .group(tasks, new GrouperMetadataImpl(group, locality, new HashMap<>(), new HashMap<>()));
            long took = System.nanoTime() - began;
            StringBuilder out = new StringBuilder("ROUND " + step + " " + took + "\n");
            for (ContainerModel container : containers) {
                out.append(container.getId()).append(" A");
                container.getTasks().forEach((name, task) -> {
                    out.append(' ').append(task.getChangelogPartition().getPartitionId());
                    locality.put(name, group.get(container.getId()));
                });
                out.append('\n');
            }
            System.out.print(out);
        }
    }
}
