// The board: a pipeline per row, an environment per column, a revision on its way per card. Gates stand beside the buttons.
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { type DragEvent, useMemo, useState } from 'react'
import { CallError } from '../api/call.ts'
import { useCall } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { Glyph, Icon, Pill } from '../parts/icon.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { MoveDialog } from './move-dialog.tsx'
import { findPromotion, isDecidable, isTarget, type Move } from './moves.ts'
import { type PipelineLane, type PromotionCard, toCard, toLane } from './promotion-model.ts'
import { PromotionPanel } from './promotion-panel.tsx'

const route = getRouteApi('/promotions')
const shows = [
  { id: 'open', label: 'Only open' },
  { id: 'all', label: 'With ended' },
] as const

export function PromotionsScreen() {
  const { card: chosenId, show = 'open' } = route.useSearch()
  const navigate = useNavigate()
  /** What is dragged, and what was dropped or chosen by its button. */
  const [dragged, setDragged] = useState<Move | null>(null)
  const [move, setMove] = useState<Move | null>(null)
  const pipelines = useCall('listPipelines', { query: { limit: 200 } }, { everyMs: 5_000 })
  const promotions = useCall('listPromotions', { query: { limit: 200 } }, { everyMs: 3_000 })
  const cards = useMemo(() => (promotions.data ?? []).map(toCard), [promotions.data])
  const lanes = useMemo(() => (pipelines.data ?? []).map(toLane), [pipelines.data])
  const chosen = cards.find(({ id }) => id === chosenId)
  const waiting = cards.filter(({ phase }) => phase === 'AwaitingApproval').length
  const failure = pipelines.error
  const isAbsent =
    failure instanceof CallError && ['not_available', 'pipelines_unavailable'].includes(failure.code) && pipelines.data === undefined
  return (
    <>
      <div className="head">
        <h1>Promotions</h1>
        <span className="ink-3">
          {lanes.length} {lanes.length === 1 ? 'pipeline' : 'pipelines'}
          {waiting === 0 ? '' : `, ${waiting} ${waiting === 1 ? 'waits' : 'wait'} for approval`}
        </span>
        <div className="acts">
          <Tabs
            options={shows}
            value={show as 'open'}
            label="Which promotions"
            onChange={(next) => void navigate({ to: '/promotions', search: { show: next } })}
          />
        </div>
      </div>
      {isAbsent ? (
        <section className="card">
          <Empty title="No pipelines program is connected" command="brokkr pipelines --install-crds">
            The pipelines program promotes revisions between environments. Set broker.pipelines_url to its address, then this board shows
            its pipelines.
          </Empty>
        </section>
      ) : (
        <div className={chosen === undefined ? 'cols' : 'cols with-panel'}>
          <PanelBody query={pipelines}>
            {() =>
              lanes.length === 0 ? (
                <section className="card">
                  <Empty title="No pipeline yet" command="kubectl apply -f pipeline.yaml">
                    A Pipeline names an application and its environments in order; each new revision passes them one by one.
                  </Empty>
                </section>
              ) : (
                <div className="board">
                  {lanes.map((lane) => (
                    <Lane
                      key={lane.id}
                      lane={lane}
                      cards={cards.filter(
                        (card) => card.pipeline === lane.name && card.namespace === lane.namespace && (show === 'all' || card.isOpen),
                      )}
                      chosenId={chosenId}
                      dragged={dragged}
                      drag={setDragged}
                      choose={setMove}
                    />
                  ))}
                </div>
              )
            }
          </PanelBody>
          {chosen === undefined ? null : (
            <PromotionPanel key={chosen.id} card={chosen} close={() => void navigate({ to: '/promotions', search: { show } })} />
          )}
        </div>
      )}
      {move === null ? null : <MoveDialog move={move} onClose={() => setMove(null)} />}
    </>
  )
}

interface LaneProps {
  readonly lane: PipelineLane
  readonly cards: readonly PromotionCard[]
  readonly chosenId: string | undefined
  readonly dragged: Move | null
  readonly drag: (move: Move | null) => void
  readonly choose: (move: Move) => void
}

function Lane({ lane, cards, chosenId, dragged, drag, choose }: LaneProps) {
  return (
    <section className="card board-row" aria-label={`Pipeline ${plainText(lane.name, 100)}`}>
      <div className="board-lane">
        <div className="col board-name">
          <Name text={lane.name} className="b" />
          <span className="ink-3 f12">{lane.namespace}</span>
          <span className="ink-3 f12 cut">{plainText(lane.app, 80)}</span>
          {lane.isHeld ? <Pill state="held">held</Pill> : null}
        </div>
        {lane.environments.map((environment, index) => {
          const own = cards.filter((card) => card.environment === environment.name)
          const isOpen = isTarget(dragged, lane, environment.name)
          const promotion = findPromotion(lane, environment.name, cards)
          return (
            <div
              key={environment.name}
              className={isOpen ? 'env open' : 'env'}
              {...(isOpen
                ? {
                    onDragOver: (event: DragEvent) => event.preventDefault(),
                    onDrop: (event: DragEvent) => {
                      event.preventDefault()
                      if (dragged !== null) choose(dragged)
                      drag(null)
                    },
                  }
                : {})}
            >
              <h2 className="f12 b">{environment.name}</h2>
              <div
                className="env-head"
                draggable={typeof promotion !== 'string'}
                onDragStart={() => (typeof promotion === 'string' ? undefined : drag(promotion))}
                onDragEnd={() => drag(null)}
              >
                <Glyph
                  state={
                    environment.error !== null
                      ? 'failing'
                      : environment.targets === 0
                        ? 'unknown'
                        : environment.isReady
                          ? 'current'
                          : 'degraded'
                  }
                />
                <span className="mono cut" title={environment.revision ?? undefined}>
                  {shortRevision(environment.revision) ?? 'nothing'}
                </span>
                <span className="ink-3 f12">
                  {environment.ready} of {environment.targets} ready
                </span>
              </div>
              {typeof promotion === 'string' ? null : (
                <button type="button" className="btn sm" onClick={() => choose(promotion)}>
                  Promote to {plainText(lane.environments[index + 1]!.name, 40)}
                </button>
              )}
              {environment.error === null ? null : <span className="f12 ink-2">{plainText(environment.error, 200)}</span>}
              {own.map((card) => (
                <Card
                  key={card.id}
                  card={card}
                  isChosen={card.id === chosenId}
                  drag={() => drag(isDecidable(card) ? { kind: 'approve', card } : null)}
                  drop={() => drag(null)}
                />
              ))}
              {own.length === 0 && index > 0 && lane.environments[index - 1]!.revision !== environment.revision ? (
                <span className="f12 ink-3">
                  <Icon name="lock" size="s" /> after {lane.environments[index - 1]!.name} settles
                </span>
              ) : null}
            </div>
          )
        })}
      </div>
    </section>
  )
}

interface CardProps {
  readonly card: PromotionCard
  readonly isChosen: boolean
  readonly drag: () => void
  readonly drop: () => void
}

function Card({ card, isChosen, drag, drop }: CardProps) {
  return (
    <Link
      to="/promotions"
      search={(all: Record<string, string | undefined>) => ({ ...all, card: card.id })}
      className={isChosen ? 'pcard on' : 'pcard'}
      draggable={isDecidable(card)}
      onDragStart={drag}
      onDragEnd={drop}
    >
      <span className="row">
        <b className="mono cut grow" title={card.revision}>
          {shortRevision(card.revision)}
        </b>
        <Age at={card.phaseSince ?? card.createdAt} />
        <Glyph state={card.state} />
      </span>
      <span className="f12 ink-2">{card.phase === 'AwaitingApproval' ? 'waits for approval' : card.phase}</span>
      <span className="gates">
        {card.gates.map((gate) => (
          <span key={gate.title} className={`gate st-${gate.state}`}>
            <Glyph state={gate.state} />
            {plainText(gate.title, 60)}
          </span>
        ))}
      </span>
    </Link>
  )
}

export function shortRevision(revision: string | null): string | null {
  if (revision === null) return null
  const [, digest] = /sha(?:1|256):([0-9a-f]{7})[0-9a-f]*$/.exec(revision) ?? []
  return plainText(digest ?? revision, 40)
}
