import { status } from '../index.ts';
import { status as inner } from '../model/status.ts';

export const flow = [status, inner];
