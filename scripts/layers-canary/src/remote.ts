export { connect } from './remote/connect.ts';
