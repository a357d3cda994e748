import { page } from './page.ts';
import { testsMayImportAnything } from '../../model/clock.test.ts';
import { missing } from './missing.ts';
import '../../../../layer-rules.ts';

export const other = [page, testsMayImportAnything, missing];
