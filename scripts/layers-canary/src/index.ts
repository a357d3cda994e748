export { status } from './model/status.ts';
import './require-node.ts';
