package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import java.util.Map;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.junit.jupiter.api.Assertions;

/** The same groups with the protocol of KIP-848, whose rebalances are always incremental. */
public class ConsumerProtocolTest extends GroupTest {
    @Override
    Map<String, Object> protocol() {
        return Map.of("group.protocol", "consumer");
    }

    @Override
    Map<String, Object> incremental() {
        return Map.of();
    }

    @Override
    void checkFenced(Throwable e) {
        if (!(e instanceof FencedInstanceIdException)) {
            assertInstanceOf(UnreleasedInstanceIdException.class, e);
        }
        Assertions.assertNotNull(e.getMessage());
    }
}
