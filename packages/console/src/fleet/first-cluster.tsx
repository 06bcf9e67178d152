// Shown while there is no cluster: the join wizard, and what comes next.

import { JoinWizard } from '../access/join-wizard.tsx'
import { Command } from '../parts/command.tsx'
import { Icon } from '../parts/icon.tsx'

export function FirstCluster({ hasCluster, openFleet }: { hasCluster: boolean; openFleet: () => void }) {
  return (
    <div className="first">
      <div>
        <h1 className="first-title">{hasCluster ? 'Your first cluster' : 'No cluster yet'}</h1>
        <p className="first-lead">
          A cluster joins by one outgoing connection. Nothing has to be opened to the outside, and only one agent is installed.
        </p>
        <JoinWizard />
        {hasCluster ? (
          <button type="button" className="btn go first-open" onClick={openFleet}>
            Open the fleet
          </button>
        ) : null}
      </div>
      <aside className="col stack-gap">
        <section className="card">
          <header>
            <h2>Next</h2>
          </header>
          <ul className="list two">
            <li>
              <Icon name="stacks" />
              <div className="col grow">
                <b className="b">First stack</b>
                <span className="mono ink-3 f12">brokkr apply -f k8s/ --stack shop</span>
              </div>
            </li>
            <li>
              <Icon name="promo" />
              <div className="col grow">
                <b className="b">First promotion</b>
                <span className="ink-3 f12">a Pipeline with two environments and one approval</span>
              </div>
            </li>
          </ul>
        </section>
        <section className="card pad">
          <b className="b">No cluster at hand?</b>
          <p className="ink-2">Start a practice cluster on this machine. Its pods are simulated, everything else is real.</p>
          <Command text="brokkr up" />
        </section>
      </aside>
    </div>
  )
}
