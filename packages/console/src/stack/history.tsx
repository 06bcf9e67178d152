// Versions of a stack, newest first. Any two can be compared; an earlier one can be rolled back to.
import type { DeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import { useMemo } from 'react'
import { useCall, usePages } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { StateText } from '../parts/icon.tsx'
import { More } from '../parts/more.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { DiffView } from './diff-view.tsx'

interface HistoryProps {
  readonly stackId: string
  readonly from: string | undefined
  readonly to: string | undefined
  readonly open: (change: { from?: string; to?: string }) => void
}

export function History({ stackId, from, to, open }: HistoryProps) {
  const pages = usePages('listDeploymentObjects', { params: { id: stackId }, query: { content: false, limit: 50 } })
  const objects = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data])
  const newer = objects.find(({ id }) => id === to) ?? objects[0]
  const older = objects.find(({ id }) => id === from) ?? objects[objects.indexOf(newer!) + 1]
  return (
    <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
      {() =>
        objects.length === 0 ? (
          <Empty title="No version yet">Every submitted manifest becomes a version with the next sequence number.</Empty>
        ) : (
          <div className="split pad-all">
            <ul className="hist scroll" tabIndex={0} aria-label="Versions">
              {objects.map((object) => (
                <Version
                  key={object.id}
                  object={object}
                  isFrom={object.id === older?.id}
                  isTo={object.id === newer?.id}
                  chooseFrom={() => open({ from: object.id })}
                  chooseTo={() => open({ to: object.id })}
                />
              ))}
              <More hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} load={() => void pages.fetchNextPage()} />
            </ul>
            {newer === undefined ? null : <Comparison older={older} newer={newer} />}
          </div>
        )
      }
    </PanelBody>
  )
}

interface VersionProps {
  readonly object: DeploymentObject
  readonly isFrom: boolean
  readonly isTo: boolean
  readonly chooseFrom: () => void
  readonly chooseTo: () => void
}

function Version({ object, isFrom, isTo, chooseFrom, chooseTo }: VersionProps) {
  return (
    <li>
      <b className="mono">{object.sequence_id}</b>
      <Age at={object.submitted_at} />
      <span className="cut ink-2 f12">
        {object.is_deletion_marker ? (
          <StateText state="failing">deletion marker</StateText>
        ) : object.rollback_of === null ? (
          object.yaml_checksum.slice(0, 10)
        ) : (
          'rollback'
        )}
      </span>
      <span className="chips">
        <button type="button" className={isFrom ? 'tab on' : 'tab'} aria-pressed={isFrom} onClick={chooseFrom}>
          from
        </button>
        <button type="button" className={isTo ? 'tab on' : 'tab'} aria-pressed={isTo} onClick={chooseTo}>
          to
        </button>
      </span>
    </li>
  )
}

function Comparison({ older, newer }: { older: DeploymentObject | undefined; newer: DeploymentObject }) {
  const before = useCall('getDeploymentObject', { params: { id: older?.id ?? '' } }, { enabled: older !== undefined })
  const after = useCall('getDeploymentObject', { params: { id: newer.id } })
  return (
    <div className="col stack-gap">
      <p className="ink-2">
        From <b className="mono">{older?.sequence_id ?? 'nothing'}</b> to <b className="mono">{newer.sequence_id}</b>
      </p>
      <PanelBody query={after}>
        {(object) =>
          older !== undefined && before.data === undefined ? null : (
            <DiffView before={before.data?.yaml_content ?? ''} after={object.yaml_content} />
          )
        }
      </PanelBody>
    </div>
  )
}
