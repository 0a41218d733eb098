package rowtrail.conformance;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.PrintWriter;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the test classes named on the command line. Each test prints one line, "pass|fail NAME SECONDS", and a failure
 * its stack trace; the exit code is 1 when a test failed and 2 when there was none.
 */
public final class RunTests {
    private RunTests() {}

    public static void main(String[] args) {
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(Arrays.stream(args).map(name -> selectClass("rowtrail.conformance." + name)).toList())
                // A client that waits for an answer that never comes fails its test, not the run.
                .configurationParameter("junit.jupiter.execution.timeout.default", "60 s")
                .configurationParameter("junit.jupiter.execution.timeout.thread.mode.default", "SEPARATE_THREAD")
                // Only of classes that ask for it.
                .configurationParameter("junit.jupiter.execution.parallel.enabled", "true")
                .configurationParameter("junit.jupiter.execution.parallel.config.executor-service", "WORKER_THREAD_POOL")
                .build();
        Reporter reporter = new Reporter();
        LauncherFactory.create().execute(request, reporter);
        System.out.flush();
        System.exit(reporter.failed.get() > 0 ? 1 : reporter.finished.get() == 0 ? 2 : 0);
    }

    private static final class Reporter implements TestExecutionListener {
        private final Map<String, Long> started = new ConcurrentHashMap<>();
        private final AtomicInteger finished = new AtomicInteger();
        private final AtomicInteger failed = new AtomicInteger();
        private final PrintWriter out = new PrintWriter(System.out, true);

        @Override
        public void executionStarted(TestIdentifier test) {
            started.put(test.getUniqueId(), System.nanoTime());
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            failed.incrementAndGet();
            out.printf("fail %s: skipped, %s%n", name(test), reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            double seconds = (System.nanoTime() - started.get(test.getUniqueId())) / 1e9;
            switch (result.getStatus()) {
                case SUCCESSFUL -> {
                    if (test.isTest()) {
                        finished.incrementAndGet();
                        out.printf("pass %s %.1f%n", name(test), seconds);
                    }
                }
                case ABORTED, FAILED -> {
                    failed.incrementAndGet();
                    out.printf("fail %s %.1f%n", name(test), seconds);
                    result.getThrowable().ifPresent(t -> t.printStackTrace(out));
                }
            }
        }

        private static String name(TestIdentifier test) {
            String id = test.getUniqueId();
            int at = id.lastIndexOf("class:");
            String simple = at < 0 ? "" : id.substring(at + 6).replaceAll("].*", "").replaceAll(".*\\.", "") + ".";
            return simple + test.getDisplayName().replace("()", "").replace(' ', '_');
        }
    }
}
