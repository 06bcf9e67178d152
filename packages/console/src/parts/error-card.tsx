// A failed call in four lines: what, where, why, next.
import { CallError, describeEndpoint } from '../api/call.ts'
import { CopyButton } from './command.tsx'
import { Icon } from './icon.tsx'

interface Lines {
  readonly what: string
  readonly where: string
  readonly why: string
  readonly next: string
}

/** Pure. */
function explain(error: Error): Lines {
  if (!(error instanceof CallError))
    return { what: 'The page failed', where: 'in this browser', why: error.message, next: 'reload the page' }
  const detail = (name: string) => (typeof error.details[name] === 'string' ? error.details[name] : undefined)
  const where = detail('where') ?? `operation ${describeEndpoint(error.endpoint)}`
  const why = detail('why') ?? error.message
  if (error.status === 0)
    return {
      what: 'The broker does not respond',
      where,
      why: 'no answer over the network',
      next: 'nothing: the page tries again by itself',
    }
  if (error.status === 401) return { what: 'The session ended', where, why, next: 'sign in again; the page is kept' }
  const next = error.next ?? (error.isTransient ? 'nothing: the page tries again by itself' : 'correct the input and try again')
  return { what: error.status >= 500 ? 'The broker could not answer' : 'The broker refused', where, why, next }
}

export function ErrorCard({ error, retry }: { error: Error; retry?: (() => void) | undefined }) {
  const { what, where, why, next } = explain(error)
  const id = error instanceof CallError ? [error.code, error.requestId].filter(Boolean).join(' · ') : ''
  const text = `${what}\nwhere ${where}\nwhy   ${why}\nnext  ${next}${id === '' ? '' : `\n${id}`}`
  return (
    <div className="error-card" role="alert">
      <div className="row">
        <svg className="g st-failing" aria-hidden="true">
          <use href="#g-failing" />
        </svg>
        <b className="b grow">{what}</b>
        {retry === undefined ? null : (
          <button type="button" className="btn sm" onClick={retry}>
            <Icon name="back" size="m" />
            Try now
          </button>
        )}
        <CopyButton text={text} label="Copy the error" />
      </div>
      <dl className="four">
        <dt>where</dt>
        <dd className="mono">{where}</dd>
        <dt>why</dt>
        <dd>{why}</dd>
        <dt>next</dt>
        <dd>{next}</dd>
        {id === '' ? null : (
          <>
            <dt>code</dt>
            <dd className="mono">{id}</dd>
          </>
        )}
      </dl>
    </div>
  )
}
