import java.util.*;

import org.apache.samza.Partition;
import org.apache.samza.container.TaskName;
import org.apache.samza.container.grouper.task.*;
import org.apache.samza.job.model.*;
import org.apache.samza.runtime.LocationId;

/** What Samza's groupers answer, a group a line (see `samza_groupers.py`); sets go by name. */
public final class SamzaGroupers {
    public static void main(String[] arguments) {
        for (Scanner in = new Scanner(System.in); in.hasNextLine();) {
            String[] line = in.nextLine().split(" \\| ");
            Map<String, LocationId> processors = new TreeMap<>();
            for (String each : line[1].split(" ")) {
                processors.put(each.split("@")[0], new LocationId(each.split("@")[1]));
            }
            Set<TaskModel> tasks = new TreeSet<>();
            Map<TaskName, LocationId> locations = new TreeMap<>();
            Map<TaskName, String> ran = new TreeMap<>();
            for (String each : line[2].split(" ")) {
                String[] task = each.split("@");
                TaskName name = new TaskName(task[0]);
                tasks.add(new TaskModel(name, new HashSet<>(), new Partition(0)));
                if (task.length == 1) continue;
                ran.put(name, task[1]);
                locations.put(name, new LocationId(task[2]));
            }
            int count = processors.size();
            GrouperMetadata known = new GrouperMetadataImpl(processors, locations, new TreeMap<>(), ran);
            TaskNameGrouper grouper =
                line[0].equals("count") ? new GroupByContainerCount(count) : new GroupByContainerIds(count);
            Set<ContainerModel> containers = line[0].equals("dealt")
                ? grouper.group(tasks, new ArrayList<>(processors.keySet()))
                : grouper.group(tasks, known);
            Set<String> answer = new TreeSet<>();
            for (ContainerModel container : containers) {
                for (TaskName name : container.getTasks().keySet()) answer.add(name + "@" + container.getId());
            }
            System.out.println(String.join(" | ", line) + " | " + String.join(" ", answer));
        }
    }
}
