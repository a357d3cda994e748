/** Loads the modules of the other programs and exits, to fill the compile cache. */
import '../../../src/index.ts';
import '../../../src/providers/postgres/provider.ts';
import '../../../src/providers/sqlite/provider.ts';
import '../instance-starter.ts';
import '../open-store.ts';
import './program-io.ts';
import '../scenarios.ts';
import '../unfenced-provider.ts';
import '../watched-provider.ts';
