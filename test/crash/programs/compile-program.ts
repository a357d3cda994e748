/** Loads the modules of the other programs and exits, to fill the compile cache. */
import '../../../src/index.ts';
import '../../../src/providers/postgres/provider.ts';
import '../../../src/providers/sqlite/provider.ts';
import '../helpers/instance-starter.ts';
import '../helpers/open-store.ts';
import './program-io.ts';
import '../helpers/scenarios.ts';
import '../helpers/unfenced-provider.ts';
import '../helpers/recording-provider.ts';
