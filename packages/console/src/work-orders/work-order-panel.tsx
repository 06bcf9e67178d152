// One work order: state, output while it arrives, and what can be done with it.
import { useEffect, useRef } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Command } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon } from '../parts/icon.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'

export function WorkOrderPanel({ id, isFinished, close }: { id: string; isFinished: boolean; close: () => void }) {
  const order = useCall('getWorkOrder', { params: { id } }, { everyMs: 3_000 })
  const output = useCall('getWorkOrderOutput', { params: { id } }, { everyMs: 1_500 })
  const toast = useToast()
  const cancel = useDeed('deleteWorkOrder', () => {
    toast('the work order is cancelled')
    close()
  })
  const retry = useDeed('retryWorkOrder', () => toast('a new work order is created'))
  const blocked = useReadonlyReason()
  const box = useRef<HTMLPreElement>(null)
  useEffect(() => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight
  })
  const error = cancel.error ?? retry.error
  const canRetry = isFinished && order.data?.status === 'FAILED'
  return (
    <aside className="card side" aria-label="Work order">
      <div className="phead">
        <h2 className="grow">
          <Name text={order.data?.work_type ?? 'Work order'} />
        </h2>
        <button type="button" className="btn bare sm ic" aria-label="Close" onClick={close}>
          <Icon name="x" />
        </button>
      </div>
      <PanelBody query={order}>
        {(data) => (
          <div className="pad">
            <dl className="kv">
              <dt>State</dt>
              <dd>{data.status.toLowerCase().replace('_', ' ')}</dd>
              <dt>Created</dt>
              <dd>
                <Age at={data.created_at} suffix=" ago" />
              </dd>
              {data.last_error === null ? null : (
                <>
                  <dt>Last error</dt>
                  <dd>{plainText(data.last_error, 1000)}</dd>
                </>
              )}
            </dl>
            <h3 className="b">Output</h3>
            <pre ref={box} className="code-block output" tabIndex={0} aria-label="Output">
              {output.data === undefined || output.data.text === '' ? 'no output yet' : plainText(output.data.text, 262_144)}
            </pre>
            <span className="ink-3 f12">{output.data?.finished === true ? 'complete' : 'follows while the order runs'}</span>
            <details>
              <summary>Manifest</summary>
              <pre className="code-block" tabIndex={0} aria-label="Manifest">
                {plainText(data.yaml_content, 65_536)}
              </pre>
            </details>
            {error === null ? null : <ErrorCard error={error} />}
            <div className="row">
              {isFinished ? (
                <button
                  type="button"
                  className="btn"
                  disabled={!canRetry || blocked !== null}
                  title={blocked ?? (canRetry ? undefined : 'only a failed order can be tried again')}
                  onClick={() => retry.mutate({ params: { id } })}
                >
                  Retry
                </button>
              ) : (
                <button
                  type="button"
                  className="btn bad"
                  disabled={blocked !== null}
                  title={blocked ?? undefined}
                  onClick={() => cancel.mutate({ params: { id } })}
                >
                  Cancel order
                </button>
              )}
            </div>
            <Command text={isFinished ? `brokkr work-orders retry ${id}` : `brokkr work-orders cancel ${id}`} />
          </div>
        )}
      </PanelBody>
    </aside>
  )
}
