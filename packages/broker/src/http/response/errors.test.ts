// What a client reads of a failure: nothing but the catalogue.
import { ApiError } from '@brokkr/contract/errors.ts'
import { PoolExhausted } from '@brokkr/postgres'
import { NotFound, Terminal } from '@brokkr/runtime/errors.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { expect, test } from 'vitest'
import { toErrorResponse } from './errors.ts'

function setup() {
  const lines: string[] = []
  const log = createLog({ name: 'test', destination: { write: (line) => lines.push(line) } })
  const answer = (error: unknown) => toErrorResponse({ log }, error, { requestId: 'r-1', endpoint: '/api/v1/stacks/:id', method: 'GET' })
  return { lines, answer }
}
/** As the driver makes them: the text and the detail name tables, hosts and values, none of which may leave. */
const fromPostgres = (code: string, constraint?: string) =>
  Object.assign(new Error('S3CR3T: duplicate key value violates on host db-7.internal'), {
    code,
    severity: 'ERROR',
    detail: 'Key (name)=(S3CR3T) already exists.',
    table: 'S3CR3T_table',
    ...(constraint === undefined ? {} : { constraint }),
  })
const network = (code: string, extra: object = {}) => Object.assign(new Error(`connect ${code} S3CR3T:5432`), { code, ...extra })

test.each<[string, unknown, number, string, object | undefined]>([
  ['a unique violation', fromPostgres('23505', 'unique_stack_name'), 409, 'unique_violation', { constraint: 'unique_stack_name' }],
  [
    'a foreign key violation',
    fromPostgres('23503', 'fk_deployment_object'),
    422,
    'foreign_key_violation',
    { constraint: 'fk_deployment_object' },
  ],
  ['a check violation', fromPostgres('23514', 'stacks_name_check'), 422, 'check_violation', { constraint: 'stacks_name_check' }],
  ['an exclusion violation', fromPostgres('23P01', 'x'), 422, 'check_violation', { constraint: 'x' }],
  ['a missing value', fromPostgres('23502'), 422, 'not_null_violation', undefined],
  ['a text too long', fromPostgres('22001'), 422, 'validation_failed', undefined],
  ['a number out of range', fromPostgres('22003'), 422, 'validation_failed', undefined],
  ['a time out of range', fromPostgres('22008'), 422, 'validation_failed', undefined],
  ['a NUL in a text', fromPostgres('22021'), 422, 'validation_failed', undefined],
  ['a statement that took too long', fromPostgres('57014'), 503, 'timeout', undefined],
  ['a lock that was not free', fromPostgres('55P03'), 503, 'timeout', undefined],
  ['a deadlock', fromPostgres('40P01'), 503, 'overloaded', undefined],
  ['a server that shuts down', fromPostgres('57P01'), 503, 'database_unavailable', undefined],
  ['a server that starts', fromPostgres('57P03'), 503, 'database_unavailable', undefined],
  ['a lost connection', fromPostgres('08006'), 503, 'database_unavailable', undefined],
  ['too many connections', fromPostgres('53300'), 503, 'database_unavailable', undefined],
  ['a disk that is full', fromPostgres('53100'), 503, 'database_unavailable', undefined],
  ['a standby', fromPostgres('25006'), 503, 'database_unavailable', undefined],
  ['a refused connection', network('ECONNREFUSED'), 503, 'database_unavailable', undefined],
  ['a reset connection', network('ECONNRESET'), 503, 'database_unavailable', undefined],
  ['a socket that is not there', network('ENOENT', { syscall: 'connect' }), 503, 'database_unavailable', undefined],
  ['a database that does not take the call', new Error('timeout exceeded when trying to connect'), 503, 'database_unavailable', undefined],
  ['an empty pool', new PoolExhausted(), 503, 'overloaded', undefined],
  ['a cut connection', new Error('Connection terminated unexpectedly'), 503, 'database_unavailable', undefined],
  [
    'the same inside an error of ours',
    new Terminal('store S3CR3T', { cause: fromPostgres('23505', 'unique_agent_cluster') }),
    409,
    'unique_violation',
    { constraint: 'unique_agent_cluster' },
  ],
  ['a thing that is not there', new NotFound('stack', 'S3CR3T'), 404, 'stack_not_found', undefined],
  ['a kind without a code of its own', new NotFound('gizmo', 'S3CR3T'), 404, 'not_found', undefined],
  ['a no of ours', new ApiError('stack_moved', 'the stack moved on', { details: { head: 7 } }), 409, 'stack_moved', { head: 7 }],
])('[X37] %s tells its code and nothing of what happened inside', (_, error, status, code, details) => {
  const { answer, lines } = setup()
  const { body, ...rest } = answer(error)
  expect(rest.status).toBe(status)
  expect(JSON.parse(body)).toEqual({ code, message: expect.any(String), ...(details === undefined ? {} : { details }) })
  expect(body).not.toMatch(/S3CR3T|db-7|select|insert|at .*\.ts/)
  expect(rest.headers['retry-after']).toBe(status === 503 ? '1' : undefined)
  expect(lines).toEqual([])
})

test.each<[string, unknown]>([
  ['a bug', new TypeError('cannot read S3CR3T of undefined')],
  ['a missing file', network('ENOENT', { syscall: 'open' })],
  ['a broken statement', fromPostgres('42703')],
  ['a refusal of a trigger', fromPostgres('BK003')],
  ['something that is no error', 'S3CR3T'],
  ['a five-letter code of the system', Object.assign(new Error('S3CR3T'), { code: 'EPERM' })],
])('[X37] %s is internal_error with the id of the request, and one line in the log with its cause', (_, error) => {
  const { answer, lines } = setup()
  const { status, body } = answer(error)
  expect([status, JSON.parse(body)]).toEqual([500, { code: 'internal_error', message: expect.any(String), details: { request_id: 'r-1' } }])
  expect(body).not.toMatch(/S3CR3T/)
  expect(lines).toHaveLength(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'error',
    msg: 'request failed',
    requestId: 'r-1',
    endpoint: '/api/v1/stacks/:id',
    error: { message: expect.stringContaining('S3CR3T') },
  })
})

test('a 401 response has no body', () => {
  const { answer } = setup()
  expect(answer(new ApiError('unauthorized', 'S3CR3T', { details: { x: 1 } }))).toEqual({
    status: 401,
    headers: { 'www-authenticate': 'Bearer', 'content-length': '0' },
    body: '',
  })
})

test('details are left out when they are empty', () => {
  const { answer } = setup()
  expect(answer(new ApiError('forbidden', 'no', { details: {} })).body).toBe('{"code":"forbidden","message":"no"}')
})

test('a wait that was asked for is passed on', () => {
  const { answer } = setup()
  expect(answer(new ApiError('overloaded', 'busy', { retryAfterSeconds: 5 })).headers['retry-after']).toBe('5')
})
