import org.apache.samza.config.Config;
import org.apache.samza.runtime.ApplicationRunnerMain.ApplicationRunnerCommandLine;
import org.apache.samza.runtime.ApplicationRunnerOperation;
import org.apache.samza.runtime.ApplicationRunnerUtil;

/** What a user's `main` is for a standalone job: all threads of Samza's are daemons, so it waits. */
public final class JavaProcessor {
    public static void main(String[] arguments) {
        ApplicationRunnerCommandLine line = new ApplicationRunnerCommandLine();
        Config config = line.loadConfig(line.parser().parse(arguments));
        ApplicationRunnerUtil.invoke(config, ApplicationRunnerOperation.RUN).waitForFinish();
    }
}
