// Sends the operation from this session and shows the answer. Changes need a tick, because they are real.
import { useState } from 'react'
import { useSession } from '../api/session.tsx'
import { plainText } from '../parts/text.tsx'
import type { Operation } from './openapi.ts'
import { exampleOf } from './schema-view.tsx'

export function TryIt({ operation }: { operation: Operation }) {
  const { session } = useSession()
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const [body, setBody] = useState(() => (operation.body === null ? '' : JSON.stringify(exampleOf(operation.body), null, 2)))
  const [isSure, setSure] = useState(operation.method === 'GET')
  const [answer, setAnswer] = useState<{ readonly status: number; readonly text: string; readonly ms: number } | null>(null)
  const missing = operation.parameters.find((parameter) => parameter.required === true && (values[parameter.name] ?? '') === '')
  const reason =
    typeof session !== 'object'
      ? 'sign in to try it'
      : operation.isStream
        ? 'a stream has no end; use curl'
        : missing !== undefined
          ? `${missing.name} is needed`
          : isSure
            ? null
            : 'tick that you mean it'
  const send = async () => {
    const started = performance.now()
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ''))
    const query = new URLSearchParams(
      operation.parameters.flatMap(({ name, in: place }) => (place === 'query' && values[name] ? [[name, values[name]]] : [])),
    )
    const response = await fetch(`${path}${query.size === 0 ? '' : `?${query.toString()}`}`, {
      method: operation.method,
      headers: { 'x-brokkr-console': '1', ...(operation.body === null ? {} : { 'content-type': 'application/json' }) },
      ...(operation.body === null ? {} : { body }),
    })
    const text = await response.text()
    setAnswer({ status: response.status, text: prettyText(text), ms: Math.round(performance.now() - started) })
  }
  return (
    <section aria-label="Try it" className="plan-box">
      <h3 className="b">Try it</h3>
      <div className="form-row">
        {operation.parameters.map(({ name, required }) => (
          <label key={name} className="field">
            <span>
              {name}
              {required === true ? ' (required)' : ''}
            </span>
            <input
              className="input mono"
              value={values[name] ?? ''}
              onChange={(event) => setValues({ ...values, [name]: event.target.value })}
            />
          </label>
        ))}
      </div>
      {operation.body === null ? null : (
        <label className="field">
          <span>Body</span>
          <textarea className="area" rows={6} spellCheck={false} value={body} onChange={(event) => setBody(event.target.value)} />
        </label>
      )}
      <div className="row">
        <button type="button" className="btn" disabled={reason !== null} title={reason ?? undefined} onClick={() => void send()}>
          Send {operation.method}
        </button>
        {operation.method === 'GET' ? null : (
          <label className="check">
            <input type="checkbox" checked={isSure} onChange={(event) => setSure(event.target.checked)} />I mean it: this changes real data
          </label>
        )}
        <span className="ink-3 f12">{reason ?? ''}</span>
      </div>
      {answer === null ? null : (
        <>
          <span className="ink-2">
            {answer.status}, {answer.ms} ms
          </span>
          <pre className="code-block" tabIndex={0} aria-label="Answer">
            {answer.text === '' ? 'no body' : answer.text}
          </pre>
        </>
      )}
    </section>
  )
}

function prettyText(text: string): string {
  try {
    return plainText(JSON.stringify(JSON.parse(text), null, 2), 65_536)
  } catch {
    return plainText(text, 65_536)
  }
}
