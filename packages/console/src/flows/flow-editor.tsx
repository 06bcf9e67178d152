// The editor of flows: text, what is wrong with it, and its effect on samples, step by step. A preview opens no source and no sink.
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { CallError, call } from '../api/call.ts'
import { Command } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Glyph, Icon, StateText } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'
import { FlowGraph } from './flow-graph.tsx'
import { toFlowGraph } from './flow-graph-model.ts'
import { readFlow } from './read-flow.ts'

const sampleFlow = `apiVersion: dataflow.dataflow.io/v1
kind: DataFlow
metadata:
  name: orders
  namespace: default
spec:
  source:
    type: kafka
    config:
      brokers: ["kafka:9092"]
      topic: orders
  transformations:
    - type: mask
      config:
        fields: ["$.email"]
  sink:
    type: kafka
    config:
      brokers: ["kafka:9092"]
      topic: orders-masked
`
const sampleMessage = '{"id": 1, "email": "ada@example.com", "total": 12}'
const samplesMax = 20

interface Preview {
  readonly input?: unknown
  readonly steps?: readonly { index: number; type: string; applied: boolean; outputs: readonly unknown[] }[]
  readonly ending?: string
  readonly sink?: string
  readonly error?: string
}
interface Answer {
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
  readonly previews: readonly Preview[]
}

/** A refused flow is an answer, too: its problems are in the details. */
async function preview(flow: Readonly<Record<string, unknown>>, samples: string[]): Promise<Answer> {
  try {
    return await call('previewFlow', { body: { flow, samples } })
  } catch (error) {
    const problems = error instanceof CallError ? error.details['problems'] : undefined
    if (!Array.isArray(problems)) throw error
    return { problems: problems.map(String), warnings: [], previews: [] }
  }
}

export function FlowEditor({ initial, name }: { initial?: string; name?: string }) {
  const [text, setText] = useState(initial ?? sampleFlow)
  const [samples, setSamples] = useState(sampleMessage)
  const { flow, problems } = readFlow(text, name)
  const lines = samples.split('\n').filter((line) => line.trim() !== '')
  const graph = flow === null ? null : toFlowGraph(flow)
  const run = useMutation({ mutationFn: () => preview(flow!, lines.slice(0, samplesMax)) })
  const why = problems[0] ?? (lines.length > samplesMax ? `at most ${samplesMax} samples` : null)
  const found = [...problems, ...(run.data?.problems ?? [])]
  return (
    <div className="pad">
      {graph === null ? null : <FlowGraph graph={graph} />}
      <div className="split">
        <label className="field">
          <span>Flow, YAML</span>
          <textarea
            className="area"
            rows={20}
            spellCheck={false}
            value={text}
            aria-invalid={found.length > 0}
            onChange={(event) => {
              setText(event.target.value)
              run.reset()
            }}
          />
        </label>
        <div className="col stack-gap">
          <label className="field">
            <span>Samples, one message per line</span>
            <textarea className="area" rows={5} spellCheck={false} value={samples} onChange={(event) => setSamples(event.target.value)} />
          </label>
          <div className="row">
            <button
              type="button"
              className="btn go"
              disabled={why !== null || run.isPending}
              title={why ?? undefined}
              onClick={() => run.mutate()}
            >
              {run.isPending ? 'Working…' : 'Check and preview'}
            </button>
            <span className="ink-3 f12">{why === null ? 'writes nothing' : plainText(why, 200)}</span>
          </div>
          <ul className="gate-list" aria-label="Problems">
            {found.map((problem) => (
              <li key={problem}>
                <Glyph state="failing" />
                <span>{plainText(problem, 500)}</span>
              </li>
            ))}
            {(run.data?.warnings ?? []).map((warning) => (
              <li key={warning}>
                <Glyph state="degraded" />
                <span>{plainText(warning, 500)}</span>
              </li>
            ))}
          </ul>
          {run.error === null ? null : <ErrorCard error={run.error} />}
          {run.data === undefined || run.data.problems.length > 0 ? null : <Previews previews={run.data.previews} />}
          <Command text="kubectl apply -f flow.yaml" />
        </div>
      </div>
    </div>
  )
}

function Previews({ previews }: { previews: readonly Preview[] }) {
  return (
    <section aria-label="Preview" className="col stack-gap">
      <StateText state="current">The flow is valid</StateText>
      {previews.map((one, index) => (
        <div key={index} className="card">
          <header>
            <h3>Message {index + 1}</h3>
            <span className="push">
              <StateText state={one.ending === 'written' ? 'current' : one.ending === 'dropped' ? 'wait' : 'degraded'}>
                {plainText(one.ending ?? 'unknown', 40)}
                {one.sink === undefined ? '' : ` to ${plainText(one.sink, 80)}`}
              </StateText>
            </span>
          </header>
          <ol className="flow-steps">
            {(one.steps ?? []).map((step) => (
              <li key={step.index}>
                <span className="row">
                  <Icon name="right" size="s" />
                  <b className="b">{plainText(step.type, 60)}</b>
                  {step.applied ? null : <span className="ink-3">not applied</span>}
                </span>
                <pre className="code-block" tabIndex={0} aria-label={`Result of step ${step.index + 1}`}>
                  {step.outputs.map((output) => plainText(JSON.stringify(output), 4000)).join('\n')}
                </pre>
              </li>
            ))}
          </ol>
          {one.error === undefined ? null : <p className="quiet">{plainText(one.error, 1000)}</p>}
        </div>
      ))}
    </section>
  )
}
