// The table of routes. Paths are matched whole and split before percent-decoding, so a revision with a slash is sent as %2F. Pure.
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import { handleApproval } from './approval.ts'
import { handleAbort, handleDecision, handleRetry } from './decisions.ts'
import type { HooksContext } from './deps.ts'
import { handleExplain } from './explain.ts'
import { handleListPipelines, handleListPromotions } from './list.ts'
import { handlePromotion } from './promotion.ts'
import { handleStartRun } from './runs.ts'
import { handleWake } from './wake.ts'

type Handler = (context: HooksContext, request: HookRequest, path: readonly string[]) => Promise<HookAnswer>

interface Route {
  readonly name: string
  readonly method: 'GET' | 'POST'
  /** `*` stands for any one segment, which the handler gets. */
  readonly path: readonly string[]
  readonly handle: Handler
}

const route = (name: string, method: Route['method'], path: string, handle: Handler): Route => ({
  name,
  method,
  path: path.split('/'),
  handle,
})

const routes: readonly Route[] = [
  route('promotion', 'POST', 'promotion/*/*/*', handlePromotion),
  route('approval', 'POST', 'approval/*/*/*/*', handleApproval),
  route('wake', 'POST', 'wake/*/*', handleWake),
  route('pipelines', 'GET', 'pipelines', handleListPipelines),
  route('promotions', 'GET', 'promotions', handleListPromotions),
  route('decision', 'POST', 'promotions/*/*/decision', handleDecision),
  route('retry', 'POST', 'promotions/*/*/retry', handleRetry),
  route('abort', 'POST', 'promotions/*/*/abort', handleAbort),
  route('runs', 'POST', 'pipelines/*/*/runs', handleStartRun),
  route('explain', 'GET', 'pipelines/*/*/explain', handleExplain),
  route('healthz', 'GET', 'healthz', async () => ({ status: 200, body: 'OK\n' })),
]

/** Routes that anyone may call without an identity count against the limit of calls. */
const limited = ['promotion', 'approval', 'wake']

export const isLimited = (path: string): boolean => limited.includes(path.split('/')[1] ?? '')

/** Throws Refusal 404 or 405. */
export function findRoute(method: string, path: string): { name: string; handle: Handler; parts: string[] } {
  const [, first = '', ...rest] = path.split('/')
  const segments = [first, ...rest]
  if (limited.includes(first) && method !== 'POST') throw wrongMethod('POST')
  const fitting = path.startsWith('/') ? routes.filter((each) => fits(each, segments)) : []
  if (fitting.length === 0) throw new Refusal(404, 'not found')
  const found = fitting.find((each) => each.method === method)
  if (found === undefined) throw wrongMethod(fitting.map((each) => each.method).join(', '))
  const parts = segments.flatMap((segment, index) => (found.path[index] === '*' ? [decode(segment)] : []))
  return { name: found.name, handle: found.handle, parts }
}

const fits = ({ path }: Route, segments: readonly string[]): boolean =>
  path.length === segments.length && path.every((part, index) => (part === '*' ? segments[index] !== '' : part === segments[index]))

const wrongMethod = (allow: string): Refusal => new Refusal(405, `use ${allow}`, { headers: { allow } })

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw new Refusal(404, 'not found')
  }
}
